"""Durable message processing on PostgreSQL and Spark."""

from milepost.app import Milepost
from milepost.errors import MilepostError
from milepost.log import append
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
    "Cancel",
    "Cron",
    "Defer",
    "Job",
    "Message",
    "Milepost",
    "MilepostError",
    "Position",
    "RecordedMessage",
    "Repeat",
    "Retry",
    "Segment",
    "TakenJob",
    "Yield",
    "append",
    "key_hash",
    "put",
]
