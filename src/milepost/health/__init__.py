"""Whether everything is healthy: the checks of `milepost doctor`, and their limits."""

from milepost.health.archive import ArchiveStatus, describe_archive, look_at_archive
from milepost.health.check import Check, Limits
from milepost.health.describe import log_checks
from milepost.health.examine import Report, examine

__all__ = [
    "ArchiveStatus",
    "Check",
    "Limits",
    "Report",
    "describe_archive",
    "examine",
    "log_checks",
    "look_at_archive",
]
