"""Random interleavings of transactions and reads over several connections, against a model.

The model knows of every session which messages stay if it commits, and of every reader what it
has seen. One database serves all examples: each begins where no transaction is open and the
horizon covers everything, so that what lies above that horizon is the example's own. A stranger's
locks can bring the horizon back below the last rows of earlier examples, so the model knows these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar, assert_never

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from milepost import Message, Milepost, Position, append
from milepost.db import Connection
from milepost.log import Reader, horizon, start_position
from milepost.log.append import COPY_FROM
from milepost.sql import LogOrder
from tests.chaos.log.sabotage import (
    APPEND_WITHOUT_A_FLOOR,
    COUNT_NO_FLOOR,
    MARKER_OUTLIVES_THE_SAVEPOINT,
    READ_TO_THE_NEWEST_ROW,
)
from tests.models import look_for_a_fault, run_model
from tests.waiting import wait_until

T = TypeVar("T")

EXAMPLES = 40
ROUNDS = 200
SESSIONS = 4
MOST = SESSIONS - 1
LOWEST_FLOOR = MOST + 1  # so far a stranger's locks can push a floor below the last position drawn
PASSED_UNSEEN = "passed without having been seen"
BULK = COPY_FROM + 1
LIKE_A_FLOOR = """
select {take}(
  ('milepost.messages'::regclass::oid::bigint << 32)
  | ((coalesce(pg_sequence_last_value('milepost.messages_position_seq'), 0) - %s) & 4294967295)
)
"""


@dataclass(frozen=True, slots=True)
class Append:
    session: int
    count: int
    is_copy: bool  # a plain COPY, not through append()
    begins: bool  # a transaction, unless one is open
    is_second_try: bool  # after one that a savepoint undid


@dataclass(frozen=True, slots=True)
class Savepoint:
    session: int


@dataclass(frozen=True, slots=True)
class EndSavepoint:
    session: int
    depth: int
    is_released: bool


@dataclass(frozen=True, slots=True)
class End:
    session: int
    is_rolled_back: bool


@dataclass(frozen=True, slots=True)
class Read:
    reader: int  # one more than there are: a new one, from the end
    batch_size: int
    is_resumed: bool  # by a new reader at the old one's position, without its horizon


@dataclass(frozen=True, slots=True)
class Disturb:
    """A stranger takes a lock like a floor's, or lets go of all it has."""

    below: int  # the last position drawn
    is_exclusive: bool
    lets_go: bool


Step: TypeAlias = Append | Savepoint | EndSavepoint | End | Read | Disturb

# Taken modulo the number of those a step applies to, so that few steps do nothing.
numbers = st.integers(0, MOST)
counts = st.sampled_from([1, 1, 1, 2, 2, 2, 3, 3, 3, BULK])
seldom = st.sampled_from([False, False, False, True])
batch_sizes = st.sampled_from([1, 2, 5, 1000])
ends = st.builds(End, numbers, seldom)
reads = st.builds(Read, numbers, batch_sizes, st.booleans())
steps = st.one_of(
    st.builds(Append, numbers, counts, st.booleans(), st.booleans(), seldom),
    st.builds(Savepoint, numbers),
    st.builds(EndSavepoint, numbers, numbers, st.booleans()),
    ends,
    reads,
    st.builds(Disturb, numbers, st.booleans(), seldom),
)
second_tries = st.one_of(
    st.builds(Append, numbers, st.just(1), st.booleans(), st.just(True), st.booleans()), ends, reads
)


@dataclass(slots=True)
class Session:
    """A connection that appends; `pending` is what stays if its transaction commits now."""

    conn: Connection
    is_open: bool = False
    pending: list[Position] = field(default_factory=list)
    savepoints: list[int] = field(default_factory=list)  # how much was pending at each

    def begin(self) -> None:
        if not self.is_open:
            self.conn.execute("begin")
            self.is_open = True

    def set_savepoint(self) -> None:
        self.begin()
        self.conn.execute(f"savepoint s{len(self.savepoints)}".encode())
        self.savepoints.append(len(self.pending))

    def roll_back_to(self, depth: int) -> None:
        depth %= len(self.savepoints)
        self.conn.execute(f"rollback to savepoint s{depth}".encode())
        del self.pending[self.savepoints[depth] :]
        del self.savepoints[depth + 1 :]

    def release(self, depth: int) -> None:
        depth %= len(self.savepoints)
        self.conn.execute(f"release savepoint s{depth}".encode())
        del self.savepoints[depth:]

    def end(self, statement: bytes) -> list[Position]:
        """Answers with what was pending, which is what commits if the statement says so."""
        self.conn.execute(statement)
        pending = self.pending
        self.is_open, self.pending, self.savepoints = False, [], []
        return pending


@dataclass(slots=True)
class ModelReader:
    """A reader and what it has seen; `before` is what had committed when it started."""

    reader: Reader
    start: Position
    before: frozenset[Position]
    seen: list[Position] = field(default_factory=list)

    def missed(self, committed: set[Position]) -> set[Position]:
        """What it has passed without seeing it: lost for ever."""
        after, start = self.reader.after, self.start
        passed = {position for position in committed if position <= after}
        return passed - set(self.seen) - {p for p in self.before if p <= start}


class Interleavings(RuleBasedStateMachine):
    order: ClassVar[LogOrder]
    appenders: ClassVar[list[Connection]]
    readers_conn: ClassVar[Connection]
    stranger: ClassVar[Connection]
    is_disturbed_at_all: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.sessions = [Session(conn) for conn in self.appenders]
        self.committed: set[Position] = set()
        self.to_read = 0  # a figure of the model's, so that an example can be run again
        self.horizon = Position.BEGINNING
        self.is_disturbed = False
        self.readers: list[ModelReader] = []

    @initialize()
    def start_at_the_end(self) -> None:
        wait_until(lambda: not self.rows_above(self.current_horizon()))
        self.committed |= self.last_rows(LOWEST_FLOOR)
        self.start_reader()

    @rule(step=steps)
    def take(self, step: Step) -> None:
        """One rule for all steps: as rules of their own, Hypothesis would leave most of them
        out of most examples, and then hardly any example holds a race (7 %, not 16 %)."""
        self.do(step)

    def do(self, step: Step) -> None:
        match step:
            case Append():
                self.append(step)
            case Savepoint():
                pick(self.sessions, step.session).set_savepoint()
            case EndSavepoint():
                self.end_savepoint(step)
            case End():
                self.end(step)
            case Read():
                self.read(step)
            case Disturb():
                self.disturb(step)
            case _:
                assert_never(step)

    @precondition(lambda self: self.to_read and not self.is_held())
    @rule()
    def read_everything(self) -> None:
        """Nothing of ours holds the horizon, so every reader comes to the end; it waits for
        transactions of the server's own, which hold the transaction order's."""
        self.to_read = 0
        for reader in self.readers:
            wait_until(lambda reader=reader: self.is_at_the_end(reader))  # type: ignore[misc]
            expected = {p for p in self.committed if p > reader.start}
            assert reader.seen == sorted(expected), PASSED_UNSEEN

    @invariant()
    def nothing_is_ever_passed_unseen(self) -> None:
        for reader in self.readers:
            assert not reader.missed(self.committed), PASSED_UNSEEN

    def teardown(self) -> None:
        for session in self.open:
            session.end(b"rollback")
        self.stranger.execute("select pg_advisory_unlock_all()")
        if self.readers:
            self.read_everything()

    def append(self, step: Append) -> None:
        """Outside a transaction, an append is one of its own."""
        session = pick(self.sessions, step.session)
        append_some = copy_messages if step.is_copy else append_messages
        if step.begins:
            session.begin()
        if step.is_second_try:
            session.set_savepoint()
            append_some(session.conn, 1)
            session.roll_back_to(-1)
        appended = append_some(session.conn, step.count)
        assert len(appended) == step.count
        if session.is_open:
            session.pending += appended
        else:
            self.commit(appended)

    def commit(self, positions: list[Position]) -> None:
        self.committed |= set(positions)
        self.to_read += len(positions)

    def end_savepoint(self, step: EndSavepoint) -> None:
        if not self.with_savepoints:
            return
        session = pick(self.with_savepoints, step.session)
        if step.is_released:
            session.release(step.depth)
        else:
            session.roll_back_to(step.depth)

    def end(self, step: End) -> None:
        if not self.open:
            return
        session = pick(self.open, step.session)
        if step.is_rolled_back:
            session.end(b"rollback")
        else:
            self.commit(session.end(b"commit"))

    def read(self, step: Read) -> None:
        if step.reader == len(self.readers):
            self.start_reader()
        reader = pick(self.readers, step.reader)
        if step.is_resumed:
            reader.reader = Reader(self.readers_conn, reader.reader.after)
        self.read_batch(reader, step.batch_size)

    def disturb(self, step: Disturb) -> None:
        """An appender that meets such a lock takes a lower floor, and the horizon goes back."""
        if not self.is_disturbed_at_all:
            return
        self.horizon = Position.BEGINNING
        self.is_disturbed = not step.lets_go
        if step.lets_go:
            self.stranger.execute("select pg_advisory_unlock_all()")
            return
        take = "pg_try_advisory_lock" if step.is_exclusive else "pg_try_advisory_lock_shared"
        self.stranger.execute(LIKE_A_FLOOR.format(take=take).encode(), [step.below])

    def start_reader(self) -> None:
        start = start_position(self.readers_conn, "end")
        reader = Reader(self.readers_conn, start)
        self.readers.append(ModelReader(reader, start, frozenset(self.committed)))

    @property
    def open(self) -> list[Session]:
        return [session for session in self.sessions if session.is_open]

    @property
    def with_savepoints(self) -> list[Session]:
        return [session for session in self.sessions if session.savepoints]

    def read_batch(self, reader: ModelReader, batch_size: int) -> None:
        self.current_horizon()
        before = reader.reader.after
        reader.reader.batch_size = batch_size
        batch = reader.reader.read()
        positions = [message.position for message in batch.messages]
        assert len(positions) <= batch_size
        assert [before, *positions] == sorted({before, *positions}), "twice or out of order"
        assert set(positions) <= self.committed, "uncommitted"
        assert batch.reached >= max([before, *positions])
        reader.seen += positions

    def is_at_the_end(self, reader: ModelReader) -> bool:
        self.read_batch(reader, 1000)
        return all(position <= reader.reader.after for position in self.committed)

    def is_held(self) -> bool:
        """In append order only by who has appended something that was not rolled back."""
        if self.order == "append":
            return any(session.pending for session in self.sessions)
        return bool(self.open)

    def current_horizon(self) -> Position:
        current = horizon(self.readers_conn).position
        assert self.is_disturbed or current >= self.horizon, "the horizon went back"
        self.horizon = current
        return current

    def last_rows(self, count: int) -> set[Position]:
        rows = self.readers_conn.execute(
            "select transaction_id, position from milepost.messages "
            "order by transaction_id desc, position desc limit %s",
            [count],
        )
        return {Position(*row) for row in rows}

    def rows_above(self, position: Position) -> Any:
        return self.readers_conn.execute(
            "select from milepost.messages where (transaction_id, position) > (%s, %s) limit 1",
            [position.transaction_id, position.position],
        ).fetchall()


def do(machine: Interleavings, step: Step) -> None:
    machine.do(step)


def pick(among: list[T], number: int) -> T:
    return among[number % len(among)]


def append_messages(conn: Connection, count: int) -> list[Position]:
    return append(conn, *(Message("Interleaved", {"n": n}) for n in range(count)))


def copy_messages(conn: Connection, count: int) -> list[Position]:
    """A plain COPY, which says nothing about positions: they are found by id, above the floor."""
    ids = [Message("Interleaved", {}).id for _ in range(count)]
    floor = conn.execute("select transaction_id, position from milepost.append_floor()").fetchone()
    with conn.cursor().copy("copy milepost.messages (id, type, data) from stdin") as copy:
        for id_ in ids:
            copy.write_row((id_, "Interleaved", "{}"))
    rows = conn.execute(
        "select transaction_id, position from milepost.messages "
        "where (transaction_id, position) > (%s, %s) and id = any(%s)",
        [*(floor or ()), ids],
    )
    return [Position(*row) for row in rows]


@pytest.fixture
def machine(mp: Milepost, order: LogOrder) -> Iterator[type[Interleavings]]:
    """Connections for all examples: opening them anew would take longer than an example."""
    with ExitStack() as stack:
        connections = [stack.enter_context(mp.connect()) for _ in range(SESSIONS + 2)]
        for conn in connections:  # a commit is visible all the same, and takes a tenth of the time
            conn.execute("set synchronous_commit = off")
        yield type(
            "Machine",
            (Interleavings,),
            {
                "order": order,
                "readers_conn": connections[0],
                "stranger": connections[1],
                "appenders": connections[2:],
            },
        )


def test_random_interleavings_agree_with_the_model(machine: type[Interleavings]) -> None:
    run_model(machine, EXAMPLES)


@pytest.mark.parametrize(
    ("order", "sabotage"),
    [
        ("append", READ_TO_THE_NEWEST_ROW),
        ("append", APPEND_WITHOUT_A_FLOOR),
        ("append", COUNT_NO_FLOOR),
        ("append", MARKER_OUTLIVES_THE_SAVEPOINT),
        ("transaction", READ_TO_THE_NEWEST_ROW),
    ],
    ids=[
        "append-newest-row",
        "append-no-floor",
        "append-no-floor-counts",
        "append-savepoint",
        "transaction-newest-row",
    ],
)
def test_the_model_finds_what_a_sabotaged_log_loses(
    machine: type[Interleavings], conn: Connection, sabotage: str
) -> None:
    """Undisturbed: the lower floors that a stranger brings about would hide most of it."""
    conn.execute(sabotage.encode())
    machine.is_disturbed_at_all = False
    if sabotage is MARKER_OUTLIVES_THE_SAVEPOINT:  # among all steps it would take a minute to find
        machine = type("SecondTries", (machine,), {"take": rule(step=second_tries)(do)})
    with pytest.raises(AssertionError, match=PASSED_UNSEEN):
        look_for_a_fault(machine, ROUNDS)
