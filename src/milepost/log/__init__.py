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
from milepost.log.subscriptions import Subscriptions

__all__ = [
    "EVERYTHING",
    "Batch",
    "Horizon",
    "Reader",
    "Selection",
    "Start",
    "Subscriptions",
    "append",
    "horizon",
    "read_batch",
    "recorded_message",
    "start_position",
]
