"""Whether everything is healthy: the checks of `milepost doctor`, and their limits."""

from milepost.health.check import Check, Limits, State
from milepost.health.describe import log_checks
from milepost.health.examine import Report, examine

__all__ = ["Check", "Limits", "Report", "State", "examine", "log_checks"]
