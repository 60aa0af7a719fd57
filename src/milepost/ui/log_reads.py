"""What the pages of the log read: its tail, its edges, one message, and who has passed it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.errors import LogRestored, ReadOnStandby
from milepost.log import Reader, horizon
from milepost.log.diagnosis import Holder
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection

LOOK_THROUGH = 20_000
TAIL = 100
COUNT_ABOVE = 10_000
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
    above: int  # messages above the horizon, counted up to COUNT_ABOVE
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


def read_edges(conn: Connection, schema: str) -> Edges:
    facts = db.fetch_one(conn, schema, "diagnosis_log", count_up_to=COUNT_ABOVE)
    _, messages, is_exact, transaction_id, position, _ = facts
    newest = None if position is None else Position(transaction_id, position)
    holders = tuple(db.fetch_records(conn, schema, "diagnosis_holders", Holder))
    ends = db.fetch_one(conn, schema, "log_ends")
    archived, removed = _position(*ends[:2]), _position(*ends[2:])
    try:
        with conn.transaction():  # a refusal leaves the outer transaction usable
            place = horizon(conn, schema).position
    except (LogRestored, ReadOnStandby) as refused:
        return Edges(newest, None, 0, holders, archived, removed, messages, is_exact, str(refused))
    (above,) = db.fetch_one(
        conn, schema, "log_above",
        transaction_id=place.transaction_id, position=place.position, count_up_to=COUNT_ABOVE,
    )  # fmt: skip
    return Edges(newest, place, above, holders, archived, removed, messages, is_exact)


def _position(transaction_id: int | None, position: int | None) -> Position | None:
    """In append order, all transaction ids are 0."""
    return None if position is None else Position(transaction_id or 0, position)


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
