"""The values that cross rooms: frozen, comparable, without any database or clock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

import orjson
from uuid_utils.compat import uuid7

from milepost.errors import InvalidPosition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from uuid import UUID


_UNREAD = object()


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a message stands in the total order. Always compared as the whole pair."""

    transaction_id: int
    position: int

    BEGINNING: ClassVar[Position]

    @classmethod
    def parse(cls, text: str) -> Position:
        """From `17:42`, or from `42`, the short form in a log in append order."""
        first, colon, second = text.partition(":")
        parts = (first, second) if colon else ("0", first)
        if not all(part.isascii() and part.isdigit() for part in parts):
            raise InvalidPosition(text)
        return cls(int(parts[0]), int(parts[1]))

    def __str__(self) -> str:
        return f"{self.transaction_id}:{self.position}"


Position.BEGINNING = Position(0, 0)


@dataclass(frozen=True, slots=True)
class Message:
    """What is appended. The id is known before anything is written."""

    type: str
    data: Any
    key: str | None = field(default=None, kw_only=True)
    topic: str = field(default="default", kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    id: UUID = field(default_factory=uuid7, kw_only=True)


@dataclass(frozen=True, slots=True)
class RecordedMessage(Message):
    """A message as it is read from the log."""

    position: Position
    recorded_at: datetime
    replaying: bool = field(default=False, kw_only=True)  # delivered again after a reset


@dataclass(frozen=True, slots=True)
class RawMessage(RecordedMessage):
    """A message that Python cannot decode, as the server has it. No handler is ever given one:
    its `data`, its `metadata` and, where `raw_recorded_at` is a text, its time say nothing."""

    raw_data: bytes = field(kw_only=True)
    raw_metadata: bytes = field(kw_only=True)
    raw_recorded_at: str | None = field(kw_only=True)
    reason: str = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Segment:
    """A slice of the hash space of keys: those whose `hash & mask == id`."""

    id: int
    mask: int

    WHOLE: ClassVar[Segment]

    def holds(self, key: str | None) -> bool:
        return key_hash(key) & self.mask == self.id


Segment.WHOLE = Segment(0, 0)


@dataclass(frozen=True, slots=True)
class Job:
    """What is put into a channel. Content and state are JSON values; `bytes` go as they are.

    `run_at` is a time, or a delay from now by the server's clock. Lower priorities are taken
    sooner, within the channel. `keep_for` keeps the finished job, with its result, for a while.
    """

    channel: str
    content: Any = None
    run_at: datetime | timedelta | None = field(default=None, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    max_attempts: int = field(default=25, kw_only=True)
    unique_key: str | None = field(default=None, kw_only=True)
    state: Any = field(default=None, kw_only=True)
    keep_for: timedelta | None = field(default=None, kw_only=True)


@dataclass(slots=True, eq=False)
class TakenJob:
    """A job that this process has taken and holds the lock on, until it says otherwise.

    `lost` and `cancelled` are set from outside while a handler runs: the lock is somebody else's
    by now, or the job was asked to stop. `raw` and `raw_state` are the bytes; `content` and
    `state` decode them as JSON.
    """

    id: int
    channel: str
    attempt: int
    failures: int
    max_attempts: int
    priority: int
    run_at: datetime
    raw: bytes
    raw_state: bytes | None
    unique_key: str | None
    is_kept: bool
    token: int | None = None  # of a take that a crash of the server may forget
    lost: bool = False
    cancelled: bool = False
    raw_progress: bytes | None = None  # what the next heartbeat takes along
    told_progress: bytes | None = None  # what the last one took
    deadline: float = inf  # until when it is surely held, by the monotonic clock of this process
    _content: Any = _UNREAD

    @property
    def content(self) -> Any:
        """Decoded when it is first asked for: a handler may want only the bytes."""
        if self._content is _UNREAD:
            self._content = orjson.loads(self.raw)
        return self._content

    @property
    def state(self) -> Any:
        return None if self.raw_state is None else orjson.loads(self.raw_state)

    def progress(self, value: Any) -> None:
        """Let others see how far it is, from the next heartbeat on."""
        self.raw_progress = orjson.dumps(value)


class Verdict(StrEnum):
    """What became of a job that somebody wanted to change."""

    DONE = "done"  # it was changed as asked
    STALE = "stale"  # not this attempt's any more: somebody else holds it, or it waits again
    GONE = "gone"  # there is no such job, or it is finished
    CANCELLED = "cancelled"  # it runs on, and was asked to stop


def key_hash(key: str | None) -> int:
    """The stable 32-bit hash of a key, as the SQL function key_hash() and Spark compute it."""
    if key is None:
        return 0
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
