"""All actions of the dashboard. Each calls the function of a room that the command calls too."""

from milepost.ui.action import Action
from milepost.ui.actions import dead_letters, pipelines, processors, queue, schedules

ACTIONS: list[Action] = [
    *processors.ACTIONS,
    *dead_letters.ACTIONS,
    *pipelines.ACTIONS,
    *queue.ACTIONS,
    *schedules.ACTIONS,
]

__all__ = ["ACTIONS"]
