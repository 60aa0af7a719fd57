"""What the pages of the log read: its tail, its edges, one message, and who has passed it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.log import Reader
from milepost.log.diagnosis import Holder
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.db import Connection
    from milepost.observe import Metrics

LOOK_THROUGH = 20_000
TAIL = 100
_TRACEPARENT = re.compile(r'"traceparent"\s*:\s*"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-')


@dataclass(frozen=True, slots=True)
class TailFilter:
    topic: str | None = None
    type: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class TailMessage:
    """Without metadata and data: the tail shows no payload."""

    transaction_id: int
    position: int
    topic: str
    type: str
    key: str | None
    recorded_at: str

    @property
    def place(self) -> Position:
        return Position(self.transaction_id, self.position)


@dataclass(frozen=True, slots=True)
class Edges:
    """Where the log begins and ends. Without a horizon: it cannot be read here, `refusal` says
    why."""

    newest: Position | None
    horizon: Position | None
    above: int  # messages above the horizon
    holders: tuple[Holder, ...]
    archived: Position | None  # None: there is no archive
    removed: Position | None
    messages: int
    is_exact: bool
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """JSON is shown as it is stored: numbers keep all their digits."""

    transaction_id: int
    position: int
    id: str
    topic: str
    type: str
    key: str | None
    recorded_at: str
    metadata: str
    data_bytes: int
    data: str | None
    is_archived: bool = False

    @property
    def place(self) -> Position:
        return Position(self.transaction_id, self.position)

    @property
    def trace_id(self) -> str | None:
        found = _TRACEPARENT.search(self.metadata)
        return found and found[1]


@dataclass(frozen=True, slots=True)
class Passing:
    """A checkpoint that concerns a message."""

    name: str
    version: int
    is_pipeline: bool
    segment: int | None
    transaction_id: int
    position: int
    is_passed: bool
    is_wanted: bool | None  # whether the filter of the processor lets it through

    @property
    def place(self) -> Position:
        return Position(self.transaction_id, self.position)


def read_tail(conn: Connection, schema: str, wanted: TailFilter) -> list[TailMessage]:
    parameters = {"topic": wanted.topic, "type": wanted.type, "key": wanted.key}
    return db.fetch_records(
        conn, schema, "log_tail", TailMessage,
        **parameters, look_through=LOOK_THROUGH, max_count=TAIL,
    )  # fmt: skip


def edges_of(found: Metrics, holders: Sequence[Holder]) -> Edges:
    log, kept = found.log, found.retention
    if log is None or kept is None:
        raise ValueError("The sections log and retention of metrics() are needed.")
    return Edges(
        log.newest, log.horizon, log.horizon_lag_messages or 0, tuple(holders), kept.archived,
        kept.removed, log.messages, log.is_messages_exact, log.refusal,
    )  # fmt: skip


def read_holders(conn: Connection, schema: str) -> list[Holder]:
    return db.fetch_records(conn, schema, "diagnosis_holders", Holder)


def read_message(
    conn: Connection, schema: str, place: Position, *, with_data: bool
) -> StoredMessage | None:
    """From the table, or from the archive."""
    where = {"transaction_id": place.transaction_id, "position": place.position}
    found = db.fetch_records(
        conn, schema, "log_message", StoredMessage, **where, with_data=with_data
    )
    return found[0] if found else _archived(conn, schema, place, with_data=with_data)


def _archived(
    conn: Connection, schema: str, place: Position, *, with_data: bool
) -> StoredMessage | None:
    try:
        raw = Reader(conn, schema=schema).raw(place)
    except ValueError:  # there is none at this position
        return None
    return StoredMessage(
        place.transaction_id, place.position, str(raw.id), raw.topic, raw.type, raw.key,
        raw.raw_recorded_at or str(raw.recorded_at), raw.raw_metadata.decode(),
        len(raw.raw_data), raw.raw_data.decode() if with_data else None, is_archived=True,
    )  # fmt: skip


def read_passed(conn: Connection, schema: str, message: StoredMessage) -> list[Passing]:
    return db.fetch_records(
        conn, schema, "log_passed", Passing,
        transaction_id=message.transaction_id, position=message.position,
        topic=message.topic, type=message.type, key=message.key,
    )  # fmt: skip
