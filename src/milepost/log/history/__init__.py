"""The old part of the log: which Parquet file has which range, and how its messages are read.

Only reading. What writes, removes and checks files is in `milepost.archive`. `cold.py` imports
pyarrow, which is an extra: it is imported where a file is read, and is a door of its own.
"""

from milepost.log.history.history import History, position_since, raw_at
from milepost.log.history.location import Location
from milepost.log.history.manifest import (
    ArchivedFile,
    archived_file,
    file_after,
    files_between,
)

__all__ = [
    "ArchivedFile",
    "History",
    "Location",
    "archived_file",
    "file_after",
    "files_between",
    "position_since",
    "raw_at",
]
