"""All actions of the dashboard. Each calls the function of a room that the command calls too."""

from milepost.ui.action import Action
from milepost.ui.actions import dead_letters, log, pipelines, processors, queue, schedules

ACTIONS: list[Action] = [
    *log.ACTIONS,
    *processors.ACTIONS,
    *dead_letters.ACTIONS,
    *pipelines.ACTIONS,
    *queue.ACTIONS,
    *schedules.ACTIONS,
]

__all__ = ["ACTIONS"]
