"""Steps that are done to a log with its archive and to a model of it, which is a list of messages.
What any reader sees must be what the list has, wherever the messages are."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from milepost import Position
from milepost.db import Connection
from milepost.log import Reader, Selection, horizon, start_position
from milepost.log.history.cold import forget_files
from milepost.records import RawMessage, RecordedMessage, Segment
from tests.archiving import Archive
from tests.undecodable import KINDS

TOPICS, TYPES, KEYS = ["orders", "bills"], ["Placed", "Paid"], [None, "a", "b", "c", "ü"]
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
EARLY, LATE = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
# How they compare with any time that Python has.
# Not what is nested too deeply: hypothesis lets the stack be deeper.
ODD = [kind for kind, (reason, *_) in KINDS.items() if "nested" not in reason]
ODD_TIMES = {"-infinity": EARLY, "BC": EARLY, "infinity": LATE, "far": LATE}
NAMES = st.none() | st.lists(st.sampled_from([*TOPICS, "other"]), max_size=2)
KINDS_OF = st.none() | st.lists(st.sampled_from([*TYPES, "Odd"]), max_size=2)
SEGMENTS = st.none() | st.sampled_from([Segment(0, 0), Segment(0, 1), Segment(1, 1), Segment(2, 3)])
SELECTIONS = st.builds(Selection, NAMES, KINDS_OF, SEGMENTS)
LOOKS = (
    Selection(), Selection(topics=["bills"]), Selection(segment=Segment(1, 1)),
    Selection(types=["Paid", "Odd"]), Selection(["orders"], ["Placed"], Segment(0, 1)),
)  # fmt: skip
MINUTES = st.integers(0, 9)
_INSERT = """
insert into milepost.messages (type, topic, key, data, metadata, recorded_at)
values (%s, %s, %s, %s::json, %s::json, %s::timestamptz)
returning transaction_id, "position", id
"""


@dataclass(frozen=True, slots=True, order=True)
class Known:
    """A message of the model."""

    position: Position
    id: UUID
    type: str
    topic: str
    key: str | None
    data: str
    time: datetime

    def is_selected(self, selection: Selection) -> bool:
        return (
            (selection.topics is None or self.topic in selection.topics)
            and (selection.types is None or self.type in selection.types)
            and (selection.segment is None or selection.segment.holds(self.key))
        )

    def is_read_as(self, message: RecordedMessage) -> bool:
        is_odd = self.type == "Odd"
        facts = (message.position, message.id, message.type, message.topic, message.key)
        data = message.raw_data.decode() if isinstance(message, RawMessage) else message.data
        return (
            facts == (self.position, self.id, self.type, self.topic, self.key)
            and isinstance(message, RawMessage) == is_odd
            and data == (self.data if is_odd else {"n": int(self.data)})
            and (is_odd or message.recorded_at == self.time)
        )


has_messages = precondition(lambda self: self.log)


class Log(RuleBasedStateMachine):
    conn: Connection
    other: Connection  # for a transaction that stays open
    archive: Archive

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Known] = []
        self.open: list[Known] | None = None  # what the transaction in flight has appended
        self.numbers, self.looks = itertools.count(), itertools.count()
        self.removed = self.archived = Position.BEGINNING
        self.readers: list[Reader] = []
        self.wanderer = Reader(self.conn, batch_size=2, keeps_raw=True)

    @initialize()
    def begin(self) -> None:
        self.conn.execute("truncate milepost.messages restart identity")
        self.conn.execute("delete from milepost.archive")
        self.conn.execute("delete from milepost.checkpoints")
        self.conn.execute(
            "update milepost.log set removed_transaction_id = 0, removed_position = 0"
        )
        shutil.rmtree(self.archive.directory, ignore_errors=True)
        forget_files()
        self.log = [self._added(self.conn, minute) for minute in (3, 1, 4, 1, 5, 9, 2, 6)]

    def teardown(self) -> None:
        if self.open is not None:
            self.other.execute("rollback")

    # What others do to the log.

    @rule(count=st.integers(1, 8), minute=MINUTES, is_kept=st.sampled_from([True, True, False]))
    def append(self, count: int, minute: int, is_kept: bool) -> None:
        with self.conn.transaction(force_rollback=not is_kept):
            added = [self._added(self.conn, minute) for _ in range(count)]
        if is_kept:
            self.log = sorted(self.log + added)

    @rule(kind=st.sampled_from(ODD), key=st.sampled_from(KEYS), minute=MINUTES)
    def append_odd(self, kind: str, key: str | None, minute: int) -> None:
        _, data, metadata, odd_time = KINDS[kind]
        time = FIRST + timedelta(minutes=minute)
        values = ["Odd", "orders", key, data, metadata, odd_time or time]
        found = self._inserted(self.conn, values)
        known = Known(*found, "Odd", "orders", key, data, ODD_TIMES.get(kind, time))
        self.log = sorted([*self.log, known])

    @precondition(lambda self: self.open is None)
    @rule(minute=MINUTES)
    def append_in_flight(self, minute: int) -> None:
        """A transaction that stays open: nothing above it is read before it ends."""
        self.other.execute("begin")
        self.open = [self._added(self.other, minute)]

    @precondition(lambda self: self.open is not None)
    @rule(is_kept=st.booleans())
    def end(self, is_kept: bool) -> None:
        self.other.execute("commit" if is_kept else "rollback")
        if is_kept:
            self.log = sorted(self.log + (self.open or []))
        self.open = None

    def _added(self, conn: Connection, minute: int) -> Known:
        n = next(self.numbers)
        topic, type_, key = TOPICS[n % 2], TYPES[n % 3 % 2], KEYS[n % 5]
        time = FIRST + timedelta(minutes=minute)
        values = [type_, topic, key, f'{{"n": {n}}}', "{}", time]
        return Known(*self._inserted(conn, values), type_, topic, key, str(n), time)

    def _inserted(self, conn: Connection, values: Sequence[object]) -> tuple[Position, UUID]:
        row = conn.execute(_INSERT, values).fetchone()
        assert row is not None
        return Position(*row[:2]), row[2]

    # What moves messages.

    @precondition(lambda self: any(self.archived < m.position for m in self._below_horizon()))
    @rule(data=st.data())
    def archive_up_to(self, data: st.DataObject) -> None:
        waiting = [m.position for m in self._below_horizon() if m.position > self.archived]
        self.archived = data.draw(st.sampled_from(waiting))
        self.archive.archive(self.archived)

    @precondition(lambda self: self.archived > self.removed)
    @rule(data=st.data())
    def remove_up_to(self, data: st.DataObject) -> None:
        there = [m.position for m in self.log if self.removed < m.position <= self.archived]
        self.removed = data.draw(st.sampled_from(there))
        self.archive.remove(self.removed)

    @rule(data=st.data(), rows_per_group=st.integers(1, 5), is_swept=st.booleans())
    def compact(self, data: st.DataObject, rows_per_group: int, is_swept: bool) -> None:
        files = self.archive.files()
        if not files:
            return
        first = data.draw(st.integers(0, len(files) - 1))
        end = data.draw(st.integers(first + 1, min(first + 3, len(files))))
        self.archive.join(files[first:end], rows_per_group)
        if is_swept:
            self.archive.sweep()
            forget_files()

    @rule()
    def forget(self) -> None:
        """As in a new process."""
        forget_files()

    # What readers see.

    @invariant()
    def look(self) -> None:
        """Each time at another part, with another filter: after every step something that a reader
        could see was compared."""
        number = next(self.looks)
        if not self.log:
            return
        selection = LOOKS[number % len(LOOKS)]
        places = [Position.BEGINNING, *(known.position for known in self.log)]
        after = places[number * 7 % len(places)] if number % 3 else Position.BEGINNING
        reader = Reader(self.conn, after, selection, number % 5 + 1, keeps_raw=True)
        self._compare(list(reader.messages()), after, horizon(self.conn).position, selection)
        if not self._goes_on(self.wanderer):
            self.wanderer = Reader(self.conn, batch_size=2, keeps_raw=True)

    @rule(data=st.data(), selection=SELECTIONS, batch_size=st.integers(1, 6))
    def read(self, data: st.DataObject, selection: Selection, batch_size: int) -> None:
        after = self._position(data)
        reader = Reader(self.conn, after, selection, batch_size, keeps_raw=True)
        self._compare(list(reader.messages()), after, horizon(self.conn).position, selection)

    @rule(data=st.data(), selection=SELECTIONS, batch_size=st.integers(1, 6))
    def begin_to_read(self, data: st.DataObject, selection: Selection, batch_size: int) -> None:
        after = self._position(data)
        self.readers.append(Reader(self.conn, after, selection, batch_size, keeps_raw=True))

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def read_on(self, data: st.DataObject) -> None:
        """A reader goes on from where it is, whatever has moved since its last batch."""
        self._goes_on(data.draw(st.sampled_from(self.readers)))

    def _goes_on(self, reader: Reader) -> bool:
        """Reads a batch; whether there is more."""
        before = reader.after
        batch = reader.read()
        assert len(batch.messages) <= reader.batch_size
        assert before <= batch.reached <= max(before, horizon(self.conn).position)
        assert batch.reached > before or not batch.is_full, "it makes progress"
        self._compare(batch.messages, before, batch.reached, reader.selection)
        return batch.is_full

    @has_messages
    @rule(data=st.data())
    def read_raw(self, data: st.DataObject) -> None:
        known = data.draw(st.sampled_from(self.log))
        raw = Reader(self.conn).raw(known.position)
        assert (raw.position, raw.id, raw.key) == (known.position, known.id, known.key)
        expected = known.data if known.type == "Odd" else f'{{"n": {known.data}}}'
        assert raw.raw_data.decode() == expected

    @rule(minute=st.integers(-1, 10))
    def start_at(self, minute: int) -> None:
        time, last = FIRST + timedelta(minutes=minute), horizon(self.conn).position
        late = [known.position for known in self.log if known.time >= time]
        found = Position(late[0].transaction_id, late[0].position - 1) if late else last
        assert start_position(self.conn, time) == min(found, last)

    @rule(data=st.data())
    def sql_is_refused_what_was_removed(self, data: st.DataObject) -> None:
        after = self._position(data)
        query = "select count(*) from milepost.read((%s, %s), 1000)"
        row = (after.transaction_id, after.position)
        if after < self.removed:
            with pytest.raises(psycopg.Error, match="only in the archive"):
                self.conn.execute(query, row)
        else:
            left = [known for known in self._below_horizon() if known.position > after]
            assert self.conn.execute(query, row).fetchone() == (len(left),)

    def _position(self, data: st.DataObject) -> Position:
        """Of a message, or between two."""
        at = data.draw(st.sampled_from([Position.BEGINNING, *(m.position for m in self.log)]))
        return data.draw(st.sampled_from([at, Position(at.transaction_id, at.position + 1)]))

    def _below_horizon(self) -> list[Known]:
        last = horizon(self.conn).position
        return [known for known in self.log if known.position <= last]

    def _compare(
        self,
        found: list[RecordedMessage],
        after: Position,
        up_to: Position,
        selection: Selection,
    ) -> None:
        expected = [
            known
            for known in self.log
            if after < known.position <= up_to and known.is_selected(selection)
        ]
        assert [m.position for m in found] == [known.position for known in expected]
        assert all(known.is_read_as(m) for known, m in zip(expected, found, strict=True))
