"""Read the log in order: the horizon first, then the rows below it in a later snapshot. What was
removed from the table is read from the archive, whoever reads."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from milepost import sql
from milepost.db import fetch_one, is_pooled, one, plain, run, translated
from milepost.drivers import savepoint
from milepost.errors import ArchiveFileError, InvalidPosition, InvalidStart, RangeRemoved
from milepost.log.decode import fetch_rows, raw_message, undecoded, unreadable
from milepost.log.history import History, position_since, raw_at
from milepost.log.pace import Pace
from milepost.log.selection import EVERYTHING, Selection
from milepost.records import Position, RawMessage, RecordedMessage
from milepost.steps import drive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from milepost.db import Connection

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
class _Fetched:
    """A batch that is not decoded yet."""

    rows: Iterable[RecordedMessage]
    reached: Position
    is_full: bool
    is_held: bool

    def decoded(self) -> Batch:
        return Batch(list(self.rows), self.reached, self.is_full, self.is_held)


def horizon(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> Horizon:
    with translated(schema):
        row = conn.execute(sql.query("horizon", schema)).fetchone()
    transaction_id, position, is_held = one(row)
    return Horizon(Position(transaction_id, position), is_held)


def parse_start(text: str) -> Start:
    """From what people write: `beginning`, `end`, a position, or a time, which is local without a
    time zone."""
    if text == "beginning":
        return "beginning"
    if text == "end":
        return "end"
    try:
        return Position.parse(text)
    except InvalidPosition:
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidStart(text) from None


def start_position(conn: Connection, start: Start, schema: str = sql.DEFAULT_SCHEMA) -> Position:
    """The position after which to read. `end` is the horizon, not the newest row: a message in
    flight below that row would be skipped."""
    if isinstance(start, Position):
        fetch_one(
            conn, schema, "refuse_beyond",
            transaction_id=start.transaction_id, position=start.position,
        )  # fmt: skip
        return start
    if isinstance(start, datetime):
        return _position_at(conn, start, schema)
    if start == "beginning":
        return Position.BEGINNING
    if start == "end":
        return horizon(conn, schema).position
    raise ValueError(f"start is {start!r}: expected 'beginning', 'end', a Position or a datetime.")


def require_indexes(
    conn: Connection, selection: Selection, schema: str = sql.DEFAULT_SCHEMA
) -> None:
    """Before the first batch: there may be nothing to read now."""
    if selection.key is not None:
        fetch_one(conn, schema, "refuse_unindexed_key")


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
    _history: History = field(init=False)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}: expected at least 1.")
        if not self.conn.autocommit:
            raise ValueError("A reader needs a connection in autocommit mode.")
        self._history = History(self.schema)

    def read(self) -> Batch:
        """The next batch, which may be empty. Everything up to `reached` has been examined."""
        batch = self._fetch().decoded()
        if not self.keeps_raw and RawMessage in map(type, batch.messages):
            batch = _up_to_raw(batch)
        self.after = batch.reached
        return batch

    def raw(self, position: Position) -> RawMessage:
        """The message at a position, as it is stored in the log; it must exist."""
        query = sql.query("recorded_message", self.schema)
        place = {"transaction_id": position.transaction_id, "position": position.position}
        with translated(self.schema), undecoded(self.conn, tuple_row) as cursor:
            if (row := cursor.execute(query, place).fetchone()) is not None:
                return raw_message(*row)
            ask = plain(self.conn).execute
            found = drive(raw_at(self.schema, position), lambda step: ask(*step).fetchall())
        if found is None:
            raise ValueError(f"The log has no message at position {position}.")
        return found

    def messages(self) -> Iterator[RecordedMessage]:
        """All messages up to the horizon. Faster than batches, if the caller does not keep them:
        each is decoded when the one before it is done with (see `ResultRows`)."""
        while True:
            batch = self._fetch()
            before, self.after = self.after, batch.reached
            for message in batch.rows:
                if type(message) is RawMessage and not self.keeps_raw:
                    self.after = before
                    raise unreadable(message)
                yield message
                before = message.position
            if not batch.is_full:
                return

    def follow(self, poll_seconds: float = 1.0) -> Iterator[RecordedMessage]:
        """All messages, then new ones as they come; never ends."""
        yield from self.messages()
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

    def _fetch(self) -> _Fetched:
        if self._horizon is None or self._horizon.position <= self.after:
            self._horizon = horizon(self.conn, self.schema)
        wanted = _Wanted(self.after, self._horizon, self.selection, self.batch_size)
        return _fetch_batch(self.conn, wanted, self._history)


def read_batch(
    conn: Connection,
    after: Position,
    horizon: Horizon,
    selection: Selection = EVERYTHING,
    batch_size: int = 1000,
    schema: str = sql.DEFAULT_SCHEMA,
    *,
    history: History | None = None,
) -> Batch:
    """Messages after a position and not above a horizon that an earlier statement took. Who reads
    batch after batch passes its `history`, which remembers the file that it is in."""
    wanted = _Wanted(after, horizon, selection, batch_size)
    return _fetch_batch(conn, wanted, history or History(schema)).decoded()


def _fetch_batch(conn: Connection, wanted: _Wanted, history: History) -> _Fetched:
    if wanted.horizon.position <= wanted.after:
        return _Fetched([], wanted.after, is_full=False, is_held=wanted.horizon.is_held)
    try:
        if history.is_in(conn, wanted.after):
            return _read_cold(conn, history, wanted)
        return _read_table(conn, wanted, history.schema)
    except (RangeRemoved, ArchiveFileError) as error:
        return _read_elsewhere(conn, history, wanted, error)


@dataclass(frozen=True, slots=True)
class _Wanted:
    after: Position
    horizon: Horizon
    selection: Selection
    count: int


def _read_elsewhere(
    conn: Connection, history: History, wanted: _Wanted, error: RangeRemoved | ArchiveFileError
) -> _Fetched:
    """What was removed from the table, even since the last batch, is in the archive. What cannot be
    read from a file may still be in the table."""
    if isinstance(error, RangeRemoved):
        if not history.find(conn, wanted.after):
            raise error
        return _read_cold(conn, history, wanted)
    try:
        batch = _read_table(conn, wanted, history.schema)
    except RangeRemoved:
        raise error from None
    history.leave()
    return batch


def _read_table(conn: Connection, wanted: _Wanted, schema: str) -> _Fetched:
    after, horizon, count = wanted.after, wanted.horizon, wanted.count
    parameters = wanted.selection.parameters() | {
        "after_transaction_id": after.transaction_id,
        "after_position": after.position,
        "horizon_transaction_id": horizon.position.transaction_id,
        "horizon_position": horizon.position.position,
        "max_count": count,
    }
    name = "read" if wanted.selection.key is None else "read_key"
    with translated(schema), _surviving(conn):
        rows = fetch_rows(conn, (sql.query(name, schema), parameters))
    is_full = len(rows) == count
    reached = rows.last_position() if is_full else horizon.position
    return _Fetched(rows, reached, is_full, horizon.is_held)


def _surviving(conn: Connection) -> AbstractContextManager[None]:
    """A read that is refused must not break the caller's transaction: the archive is asked next."""
    is_outside = conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE
    return nullcontext() if is_outside else savepoint(conn)


def _read_cold(conn: Connection, history: History, wanted: _Wanted) -> _Fetched:
    """Full as long as something follows, in the next file or in the table."""
    horizon = wanted.horizon
    messages, reached = history.read(
        conn, wanted.after, horizon.position, wanted.selection, wanted.count
    )
    return _Fetched(messages, reached, reached < horizon.position, horizon.is_held)


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
    # The table first: what is removed from it meanwhile is in the archive by then.
    found = Position(*fetch_one(conn, schema, "position_at", recorded_from=time))
    archived = position_since(conn, schema, time)
    return found if archived is None else min(archived, found)
