"""The values that are passed between packages: frozen, comparable, no database, no clock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import orjson
from uuid_utils.compat import uuid7

from milepost.errors import InvalidPosition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID


_UNREAD = object()
_BIGINT = 2**63 - 1  # the largest that PostgreSQL has


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The place of a message in the total order. Always compared as the whole pair."""

    transaction_id: int
    position: int

    BEGINNING: ClassVar[Position]

    @classmethod
    def parse(cls, text: str) -> Position:
        """From `17:42`, or from `42`, the short form in a log in append order."""
        first, colon, second = text.partition(":")
        parts = (first, second) if colon else ("0", first)
        if not all(_is_bigint(part) for part in parts):
            raise InvalidPosition(text)
        return cls(int(parts[0]), int(parts[1]))

    def __str__(self) -> str:
        return f"{self.transaction_id}:{self.position}"


Position.BEGINNING = Position(0, 0)


def _is_bigint(text: str) -> bool:
    """Digits only, and not so many that no column could hold them."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_BIGINT))
    return is_number and int(text) <= _BIGINT


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
    """A message that Python cannot decode, as the server stores it. No handler is called with it.
    Its `data`, its `metadata` and, if `raw_recorded_at` is a string, its time are placeholders."""

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
        """Whether messages with this key are in it."""
        return key_hash(key) & self.mask == self.id


Segment.WHOLE = Segment(0, 0)

OnDead: TypeAlias = Literal["wait", "cancel", "run"]


@dataclass(frozen=True, slots=True)
class Job:
    """What is put into a channel. Content and state are JSON values; `bytes` are stored unchanged.

    `run_at` is a time, or a delay from now by the server's clock. Within the channel, lower
    priorities are taken first. `keep_for` is how long the finished job is kept with its result.

    `unique_key`: the put changes nothing while a job of the channel has the same key; with
    `replace` it replaces a job that has not begun. The key stays taken for `unique_for` after
    completion. `after`: ids of jobs that must complete before this one runs; `on_dead` says what
    happens if one of them dies.
    """

    channel: str
    content: Any = None
    run_at: datetime | timedelta | None = field(default=None, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    max_attempts: int = field(default=25, kw_only=True)
    unique_key: str | None = field(default=None, kw_only=True)
    state: Any = field(default=None, kw_only=True)
    keep_for: timedelta | None = field(default=None, kw_only=True)
    replace: bool = field(default=False, kw_only=True)
    unique_for: timedelta | None = field(default=None, kw_only=True)
    after: Sequence[int] = field(default=(), kw_only=True)
    on_dead: OnDead = field(default="wait", kw_only=True)


# How a job that was taken begins, if not as soon as a handler is free (queue/worker/begins.py).
LAST_ATTEMPT, SUSPECT, BEGIN_AWAITED = 1, 2, 4


@dataclass(slots=True, eq=False)
class TakenJob:
    """A job that this process has taken. It holds the job's lock until the job is settled.

    `lost` and `cancelled` are set from outside while a handler runs: another process has the lock
    now, or the job was asked to stop. `raw` and `raw_state` are the bytes; `content` and `state`
    decode them as JSON.
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
    token: int | None = None  # of a take that a server crash may undo
    begin_rules: int = 0  # LAST_ATTEMPT, SUSPECT, BEGIN_AWAITED: 0 for nearly all
    trace: str | None = None  # the span in which it was put: traceparent, a space, tracestate
    lost: bool = False
    cancelled: bool = False
    raw_progress: bytes | None = None  # sent with the next heartbeat
    told_progress: bytes | None = None  # sent with the last heartbeat
    begun_at: float | None = None  # by the same clock as the deadline; only if there are rules
    is_begin_told: bool = False  # the server knows that it has begun
    deadline: float = inf  # the lock is held until then, by the monotonic clock of this process
    taken_at: float = 0.0  # by the same clock
    _content: Any = _UNREAD

    @property
    def content(self) -> Any:
        """Decoded at the first access: a handler may need only the bytes."""
        if self._content is _UNREAD:
            self._content = orjson.loads(self.raw)
        return self._content

    @property
    def state(self) -> Any:
        """What an earlier attempt has left by `Defer` or `Yield`, or what was put; None if there
        is none."""
        return None if self.raw_state is None else orjson.loads(self.raw_state)

    def progress(self, value: Any) -> None:
        """Publish the progress of the job with the next heartbeat."""
        self.raw_progress = orjson.dumps(value)


class Verdict(StrEnum):
    """The outcome of a request to change a job."""

    DONE = "done"  # it was changed as asked
    STALE = "stale"  # the attempt is over: another process holds the job, or it waits again
    GONE = "gone"  # there is no such job, or it is finished
    CANCELLED = "cancelled"  # it is still running, and was asked to stop


def key_hash(key: str | None) -> int:
    """The stable 32-bit hash of a key, as the SQL function key_hash() and Spark compute it."""
    if key is None:
        return 0
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
