"""Durable message processing on PostgreSQL and Spark."""

from milepost import interrupt  # noqa: F401 - before what takes long to import

# isort: split

from importlib.metadata import PackageNotFoundError, version

from milepost.app import Milepost
from milepost.checkpoints import (
    CheckpointCommitter,
    MemoryCheckpointStore,
    PostgresCheckpointStore,
)
from milepost.errors import AppendConflict, JobTimedOut, MilepostError, StaleWrite
from milepost.log import Newer, append
from milepost.observe import ProbeLimits
from milepost.pipeline.sinks import Append, Files, History, ToLog, ToQueue, Upsert
from milepost.pipeline.spark.settings import SparkSettings
from milepost.processors import (
    LATEST,
    Checkpointing,
    FencedUpsert,
    FileStore,
    SegmentListener,
    Snapshot,
    Trigger,
    on,
)
from milepost.queue import (
    SUPPLIED,
    Cancel,
    Cron,
    Defer,
    Failure,
    Handle,
    Rate,
    Repeat,
    Task,
    Yield,
    put,
    put_group,
)
from milepost.records import (
    Job,
    Message,
    Position,
    RecordedMessage,
    Segment,
    TakenJob,
    key_hash,
)
from milepost.retry import Retry

try:
    __version__ = version("milepost")
except PackageNotFoundError:  # its sources are on the path, and nothing is installed
    __version__ = "unknown"

__all__ = [
    "LATEST",
    "SUPPLIED",
    "Append",
    "AppendConflict",
    "Cancel",
    "CheckpointCommitter",
    "Checkpointing",
    "Cron",
    "Defer",
    "Failure",
    "FencedUpsert",
    "FileStore",
    "Files",
    "Handle",
    "History",
    "Job",
    "JobTimedOut",
    "MemoryCheckpointStore",
    "Message",
    "Milepost",
    "MilepostError",
    "Newer",
    "Position",
    "PostgresCheckpointStore",
    "ProbeLimits",
    "Rate",
    "RecordedMessage",
    "Repeat",
    "Retry",
    "Segment",
    "SegmentListener",
    "Snapshot",
    "SparkSettings",
    "StaleWrite",
    "TakenJob",
    "Task",
    "ToLog",
    "ToQueue",
    "Trigger",
    "Upsert",
    "Yield",
    "__version__",
    "append",
    "key_hash",
    "on",
    "put",
    "put_group",
]
