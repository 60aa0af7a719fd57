"""The log: append messages in your own transaction, read them in one total order."""

from milepost.log.append import append
from milepost.log.conditions import Newer
from milepost.log.decode import (
    careful_message,
    decode_json,
    refuse_unreadable,
    time_text,
    undecoded,
    unreadable,
)
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES, encode
from milepost.log.history import History, raw_at
from milepost.log.pace import Pace
from milepost.log.read import (
    Batch,
    Horizon,
    Reader,
    Start,
    horizon,
    parse_start,
    read_batch,
    require_indexes,
    start_position,
)
from milepost.log.selection import EVERYTHING, Selection

__all__ = [
    "DEFAULT_MAX_PAYLOAD_BYTES",
    "EVERYTHING",
    "Batch",
    "History",
    "Horizon",
    "Newer",
    "Pace",
    "Reader",
    "Selection",
    "Start",
    "append",
    "careful_message",
    "decode_json",
    "encode",
    "horizon",
    "parse_start",
    "raw_at",
    "read_batch",
    "refuse_unreadable",
    "require_indexes",
    "start_position",
    "time_text",
    "undecoded",
    "unreadable",
]
