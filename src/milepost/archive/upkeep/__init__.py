"""Care for the files of the archive: join, verify, sweep, erase.

A door of its own: it imports pyarrow, which is an extra.
"""

from milepost.archive.upkeep.compact import Compaction, compact
from milepost.archive.upkeep.erase import Erasure, erase
from milepost.archive.upkeep.manifest import replace_files
from milepost.archive.upkeep.sweep import Swept, sweep
from milepost.archive.upkeep.verify import Problem, Verification, verify

__all__ = [
    "Compaction",
    "Erasure",
    "Problem",
    "Swept",
    "Verification",
    "compact",
    "erase",
    "replace_files",
    "sweep",
    "verify",
]
