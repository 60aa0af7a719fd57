"""The log: append messages in your own transaction, read them in one total order."""

from milepost.log.append import append
from milepost.log.decode import (
    careful_message,
    decode_json,
    refuse_unreadable,
    time_text,
    undecoded,
    unreadable,
)
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES, encode
from milepost.log.pace import Pace
from milepost.log.read import (
    EVERYTHING,
    Batch,
    Horizon,
    Reader,
    Selection,
    Start,
    horizon,
    read_batch,
    start_position,
)
from milepost.log.subscriptions import Subscriptions

__all__ = [
    "DEFAULT_MAX_PAYLOAD_BYTES",
    "EVERYTHING",
    "Batch",
    "Horizon",
    "Pace",
    "Reader",
    "Selection",
    "Start",
    "Subscriptions",
    "append",
    "careful_message",
    "decode_json",
    "encode",
    "horizon",
    "read_batch",
    "refuse_unreadable",
    "start_position",
    "time_text",
    "undecoded",
    "unreadable",
]
