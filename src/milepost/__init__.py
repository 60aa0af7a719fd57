"""Durable message processing on PostgreSQL and Spark."""

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
    "append",
    "key_hash",
    "put",
]
