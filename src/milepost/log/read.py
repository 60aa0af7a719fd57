"""Read the log in order: the horizon first, then the rows below it in a later snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from psycopg.rows import tuple_row

from milepost import sql
from milepost.db import fetch_one, is_pooled, one, run, translated
from milepost.log.decode import fetch_messages, raw_message, undecoded, unreadable
from milepost.log.pace import Pace
from milepost.records import Position, RawMessage, RecordedMessage, Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from milepost.db import Connection, Statement

Start: TypeAlias = "Position | datetime | Literal['beginning', 'end']"


@dataclass(frozen=True, slots=True)
class Horizon:
    """The highest position below which no new message can appear, at one moment."""

    position: Position
    is_held: bool  # a transaction is in flight above it: poll again soon


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages in order, and the position up to which all messages have been examined, whether
    they passed the filter or not."""

    messages: list[RecordedMessage]
    reached: Position
    is_full: bool
    is_held: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages a reader selects. Filtering never changes their order."""

    topics: Sequence[str] | None = None
    types: Sequence[str] | None = None
    segment: Segment | None = None

    def __post_init__(self) -> None:
        """A str is a sequence of str too: its characters would silently match nothing."""
        for option, value in (("topics", self.topics), ("types", self.types)):
            if isinstance(value, str):
                raise ValueError(f"{option} is {value!r}: expected a list, [{value!r}].")  # noqa: TRY004

    def parameters(self) -> dict[str, Any]:
        return {
            "topics": None if self.topics is None else list(self.topics),
            "types": None if self.types is None else list(self.types),
            "segment_id": self.segment.id if self.segment else None,
            "segment_mask": self.segment.mask if self.segment else None,
        }


EVERYTHING = Selection()


def horizon(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> Horizon:
    with translated(schema):
        row = conn.execute(sql.query("horizon", schema)).fetchone()
    transaction_id, position, is_held = one(row)
    return Horizon(Position(transaction_id, position), is_held)


def start_position(conn: Connection, start: Start, schema: str = sql.DEFAULT_SCHEMA) -> Position:
    """The position after which to read. `end` is the horizon, not the newest row: a message in
    flight below that row would be skipped."""
    if isinstance(start, Position):
        return start
    if isinstance(start, datetime):
        return _position_at(conn, start, schema)
    if start == "beginning":
        return Position.BEGINNING
    if start == "end":
        return horizon(conn, schema).position
    raise ValueError(f"start is {start!r}: expected 'beginning', 'end', a Position or a datetime.")


@dataclass(slots=True)
class Reader:
    """Reads from a position on, batch by batch. Opens no transaction.

    The connection must be in autocommit mode, and only the reader may use it. At a message that
    cannot be decoded, UnreadableMessage is raised, after all messages before it were returned; set
    `after` to its position to read on. With `keeps_raw` it is returned as a RawMessage instead.
    """

    conn: Connection
    after: Position = Position.BEGINNING
    selection: Selection = EVERYTHING
    batch_size: int = 1000
    schema: str = sql.DEFAULT_SCHEMA
    keeps_raw: bool = False
    _horizon: Horizon | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}: expected at least 1.")
        if not self.conn.autocommit:
            raise ValueError("A reader needs a connection in autocommit mode.")

    def read(self) -> Batch:
        """The next batch, which may be empty. Everything up to `reached` has been examined."""
        if self._horizon is None or self._horizon.position <= self.after:
            self._horizon = horizon(self.conn, self.schema)
        batch = read_batch(
            self.conn, self.after, self._horizon, self.selection, self.batch_size, self.schema
        )
        if not self.keeps_raw and RawMessage in map(type, batch.messages):
            batch = _up_to_raw(batch)
        self.after = batch.reached
        return batch

    def raw(self, position: Position) -> RawMessage:
        """The message at a position, as it is stored in the log; it must exist."""
        statement = appended([position], self.schema)
        with translated(self.schema), undecoded(self.conn, tuple_row) as cursor:
            return raw_message(*one(cursor.execute(*statement).fetchone()))

    def messages(self) -> Iterator[RecordedMessage]:
        """All messages up to the horizon."""
        while True:
            batch = self.read()
            yield from batch.messages
            if not batch.is_full:
                return

    def follow(self, poll_seconds: float = 1.0) -> Iterator[RecordedMessage]:
        """All messages, then new ones as they come; never ends."""
        for batch in self.batches(poll_seconds):
            yield from batch.messages

    def batches(self, poll_seconds: float = 1.0) -> Iterator[Batch]:
        """Batches as they come. An empty batch follows every poll that finds nothing, so that the
        caller can stop after it."""
        self.listen()
        pace = Pace(poll_seconds)
        while True:
            before = self.after
            batch = self.read()
            yield batch
            wait_seconds, pace = pace.after(
                is_full=batch.is_full,
                is_fruitful=batch.reached > before,
                is_held=batch.is_held,
            )
            if wait_seconds:
                self.wait(wait_seconds)

    def listen(self) -> None:
        """Subscribe to the wake-ups of the log. They are only hints: the reader also polls. Through
        a pooler it only polls, because another client would get them."""
        if not is_pooled(self.conn):
            run(self.conn, self.schema, "listen")

    def wait(self, seconds: float) -> None:
        """Until a wake-up comes, but not longer than `seconds`."""
        for _ in self.conn.notifies(timeout=seconds, stop_after=1):
            pass


def read_batch(
    conn: Connection,
    after: Position,
    horizon: Horizon,
    selection: Selection = EVERYTHING,
    batch_size: int = 1000,
    schema: str = sql.DEFAULT_SCHEMA,
) -> Batch:
    """Messages after a position and not above a horizon that an earlier statement took."""
    if horizon.position <= after:
        return Batch([], after, is_full=False, is_held=horizon.is_held)
    parameters = selection.parameters() | {
        "after_transaction_id": after.transaction_id,
        "after_position": after.position,
        "horizon_transaction_id": horizon.position.transaction_id,
        "horizon_position": horizon.position.position,
        "max_count": batch_size,
    }
    with translated(schema):
        messages = fetch_messages(conn, (sql.query("read", schema), parameters))
    is_full = len(messages) == batch_size
    reached = messages[-1].position if is_full else horizon.position
    return Batch(messages, reached, is_full, horizon.is_held)


def appended(positions: Sequence[Position], schema: str) -> Statement:
    """The statement for the messages at positions of one transaction."""
    parameters = {
        "transaction_id": positions[0].transaction_id,
        "positions": [position.position for position in positions],
    }
    return sql.query("appended_messages", schema), parameters


def _up_to_raw(batch: Batch) -> Batch:
    """The messages before the first one that cannot be decoded; raises if there are none."""
    before: list[RecordedMessage] = []
    for message in batch.messages:
        if isinstance(message, RawMessage):
            if not before:
                raise unreadable(message)
            break
        before.append(message)
    return Batch(before, before[-1].position, is_full=True, is_held=batch.is_held)


def _position_at(conn: Connection, time: datetime, schema: str) -> Position:
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone: pass a datetime with a time zone.")
    return Position(*fetch_one(conn, schema, "position_at", recorded_from=time))
