"""The old part of the log: what is kept, what goes to files, and what may be removed."""

from milepost.archive.archiver import Archiver
from milepost.archive.duties import PolicyWatch, WhenWanted
from milepost.archive.files import forget_files, list_files
from milepost.archive.plan import FileSize
from milepost.archive.remover import Remover
from milepost.archive.retention import (
    SHARE,
    Gate,
    Policy,
    Removal,
    RetentionState,
    remove_old,
    retention_state,
    set_policy,
    unset_policy,
)

__all__ = [
    "SHARE",
    "Archiver",
    "FileSize",
    "Gate",
    "Policy",
    "PolicyWatch",
    "Removal",
    "Remover",
    "RetentionState",
    "WhenWanted",
    "forget_files",
    "list_files",
    "remove_old",
    "retention_state",
    "set_policy",
    "unset_policy",
]
