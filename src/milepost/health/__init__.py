"""Whether everything is well: the checks of `milepost doctor`, each with its limits."""

from milepost.health.check import Check, Limits, State
from milepost.health.examine import Report, examine

__all__ = ["Check", "Limits", "Report", "State", "examine"]
