"""The log: append messages in your own transaction, read them in one total order."""

from milepost.log.append import append
from milepost.log.read import (
    EVERYTHING,
    Batch,
    Horizon,
    Reader,
    Selection,
    Start,
    horizon,
    read_batch,
    recorded_message,
    start_position,
)

__all__ = [
    "EVERYTHING",
    "Batch",
    "Horizon",
    "Reader",
    "Selection",
    "Start",
    "append",
    "horizon",
    "read_batch",
    "recorded_message",
    "start_position",
]
