"""Care for the files of the archive: join, verify, sweep, erase.

A door of its own: it imports pyarrow, which is an extra.
"""

from milepost.archive.upkeep.compact import TARGET_MESSAGES, Compaction, compact
from milepost.archive.upkeep.erase import Erasure, erase
from milepost.archive.upkeep.manifest import all_files, replace_files
from milepost.archive.upkeep.sweep import OLDER_THAN, Swept, sweep
from milepost.archive.upkeep.verify import Problem, Verification, verify

__all__ = [
    "OLDER_THAN",
    "TARGET_MESSAGES",
    "Compaction",
    "Erasure",
    "Problem",
    "Swept",
    "Verification",
    "all_files",
    "compact",
    "erase",
    "replace_files",
    "sweep",
    "verify",
]
