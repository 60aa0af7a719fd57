"""Durable message processing on PostgreSQL and Spark."""

from importlib.metadata import PackageNotFoundError, version

from milepost.app import Milepost
from milepost.errors import MilepostError
from milepost.log import append
from milepost.pipeline.settings import SparkSettings
from milepost.pipeline.sinks import Append, Files, ToLog, ToQueue, Upsert
from milepost.processors.checkpointing import LATEST, Checkpointing, Trigger
from milepost.queue import Cancel, Cron, Defer, Repeat, Yield, put
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
    "Append",
    "Cancel",
    "Checkpointing",
    "Cron",
    "Defer",
    "Files",
    "Job",
    "Message",
    "Milepost",
    "MilepostError",
    "Position",
    "RecordedMessage",
    "Repeat",
    "Retry",
    "Segment",
    "SparkSettings",
    "TakenJob",
    "ToLog",
    "ToQueue",
    "Trigger",
    "Upsert",
    "Yield",
    "__version__",
    "append",
    "key_hash",
    "put",
]
