"""Durable message processing on PostgreSQL and Spark."""

from milepost.app import Milepost
from milepost.errors import MilepostError
from milepost.log import append
from milepost.records import Message, Position, RecordedMessage, Segment, key_hash
from milepost.retry import Retry

__all__ = [
    "Message",
    "Milepost",
    "MilepostError",
    "Position",
    "RecordedMessage",
    "Retry",
    "Segment",
    "append",
    "key_hash",
]
