"""The horizon never passes a position that can still appear, and passes every other one."""

from __future__ import annotations

import pytest

from milepost import Message, Milepost, Position, append, log
from milepost.db import Connection
from tests.integration.log.conftest import OpenSession
from tests.waiting import wait_until

append_order = pytest.mark.parametrize("order", ["append"])
APPEND = "insert into milepost.messages (type, data) values ('T', '{}')"


def append_one(conn: Connection, kind: str = "T") -> int:
    (position,) = append(conn, Message(kind, {}))
    return position.position


def horizon(conn: Connection) -> int:
    return log.horizon(conn).position.position


def types_read(mp: Milepost) -> list[str]:
    return [message.type for message in mp.read()]


def positions_read(mp: Milepost) -> list[int]:
    return [message.position.position for message in mp.read()]


def draw_from(conn: Connection, last: int) -> None:
    """As if so many positions had been drawn already."""
    conn.execute("select setval('milepost.messages_position_seq', %s)", [last])


def test_an_empty_log_has_a_horizon_that_covers_nothing(conn: Connection, mp: Milepost) -> None:
    assert not log.horizon(conn).is_held
    assert types_read(mp) == []


@append_order
def test_the_horizon_of_an_empty_log_is_the_beginning(mp: Milepost) -> None:
    assert mp.horizon() == Position.BEGINNING


@append_order
def test_the_horizon_is_the_last_position_when_nobody_appends(
    conn: Connection, mp: Milepost
) -> None:
    last = append(conn, Message("A", {}), Message("B", {}))[-1]
    assert mp.horizon() == last


def test_two_interleaved_appenders_are_read_when_both_have_ended(
    session: OpenSession, mp: Milepost
) -> None:
    first, second = session(), session()
    for conn, kind in [(first, "A1"), (second, "B1"), (first, "A2"), (second, "B2")]:
        if kind.endswith("1"):
            conn.execute("begin")
        append_one(conn, kind)
    second.execute("commit")
    assert types_read(mp) == []
    first.execute("commit")
    wait_until(lambda: sorted(types_read(mp)) == ["A1", "A2", "B1", "B2"])


@append_order
def test_the_horizon_stands_at_the_lowest_floor(session: OpenSession, conn: Connection) -> None:
    append_one(conn)
    first, second = session(), session()
    for appender in (first, second):
        appender.execute("begin")
        append_one(appender)
    append_one(conn)
    assert horizon(conn) == 1
    first.execute("commit")
    assert horizon(conn) == 2
    second.execute("commit")
    assert horizon(conn) == 4


@append_order
def test_an_appender_that_ended_first_does_not_lift_the_floor_of_an_earlier_one(
    session: OpenSession, conn: Connection, mp: Milepost
) -> None:
    early, late = session(), session()
    early.execute("begin")
    append_one(early, "Early")
    late.execute("begin")
    append_one(late, "Late")
    late.execute("commit")
    assert horizon(conn) == 0
    append_one(early, "Early again")
    early.execute("commit")
    assert types_read(mp) == ["Early", "Late", "Early again"]


def test_an_aborted_appender_frees_the_horizon(
    session: OpenSession, conn: Connection, mp: Milepost
) -> None:
    aborted = session()
    aborted.execute("begin")
    append_one(aborted, "Aborted")
    append_one(conn, "Later")
    assert types_read(mp) == []
    aborted.execute("rollback")
    wait_until(lambda: types_read(mp) == ["Later"])


def test_a_broken_connection_frees_the_horizon(
    session: OpenSession, conn: Connection, mp: Milepost
) -> None:
    broken = session()
    broken.execute("begin")
    append_one(broken, "Broken")
    append_one(conn, "Later")
    assert types_read(mp) == []
    broken.close()
    wait_until(lambda: types_read(mp) == ["Later"])


@append_order
def test_a_rolled_back_savepoint_frees_the_horizon_and_a_later_append_is_covered_again(
    session: OpenSession, conn: Connection, mp: Milepost
) -> None:
    appender = session()
    appender.execute("begin")
    appender.execute("savepoint half_way")
    append_one(appender, "Undone")
    appender.execute("rollback to savepoint half_way")
    append_one(conn, "Other")
    assert types_read(mp) == ["Other"]
    append_one(appender, "Second try")
    append_one(conn, "Another")
    assert types_read(mp) == ["Other"]
    appender.execute("commit")
    assert types_read(mp) == ["Other", "Second try", "Another"]


@append_order
def test_a_rolled_back_savepoint_leaves_the_floor_of_what_came_before_it(
    session: OpenSession, conn: Connection, mp: Milepost
) -> None:
    appender = session()
    appender.execute("begin")
    append_one(appender, "Before")
    appender.execute("savepoint half_way")
    append_one(appender, "Undone")
    appender.execute("rollback to savepoint half_way")
    append_one(conn, "Other")
    assert types_read(mp) == []
    appender.execute("commit")
    assert types_read(mp) == ["Before", "Other"]


@append_order
def test_a_released_savepoint_keeps_its_floor(
    session: OpenSession, conn: Connection, mp: Milepost
) -> None:
    appender = session()
    appender.execute("begin")
    appender.execute("savepoint half_way")
    append_one(appender, "Kept")
    appender.execute("release savepoint half_way")
    append_one(conn, "Other")
    assert types_read(mp) == []
    appender.execute("commit")
    assert types_read(mp) == ["Kept", "Other"]


def test_a_transaction_that_has_appended_can_ask_for_the_horizon_and_read_below_it(
    session: OpenSession, conn: Connection
) -> None:
    before = append_one(conn, "Before")
    appender = session()
    with appender.transaction():
        append_one(appender, "Own")
        rows = appender.execute("select position from milepost.read()").fetchall()
        assert rows == [(before,)]
        assert log.horizon(appender).is_held


def test_a_transaction_that_has_written_elsewhere_is_covered_from_its_first_append_on(
    session: OpenSession, conn: Connection, mp: Milepost
) -> None:
    appender = session()
    appender.execute("create table things (n integer)")
    appender.execute("begin")
    appender.execute("insert into things values (1)")
    for kind in ("First", "Second", "Third"):
        append_one(appender, kind)
        append_one(conn, f"After {kind}")
        assert types_read(mp) == []
    appender.execute("commit")
    wait_until(lambda: len(types_read(mp)) == 6)


NO_ROWS = "insert into milepost.messages (type, data) select 'T', '{}' where false"


@append_order
@pytest.mark.parametrize("statement", [APPEND, NO_ROWS])
def test_a_transaction_holds_two_floors_at_most(
    session: OpenSession, conn: Connection, statement: str
) -> None:
    """Each is a lock in a table of the whole server, which has room for some thousands."""
    appender = session()
    appender.execute("begin")
    for _ in range(5):
        appender.execute(statement)
        append_one(conn)  # so that the next floor would be another one
    held = "select count(*) from milepost.floors_held() where pid = %s"
    assert conn.execute(held, [appender.info.backend_pid]).fetchone() in [(1,), (2,)]
    appender.execute("commit")


@append_order
@pytest.mark.parametrize(
    "forged",
    [
        "'x'",
        "''",
        "'0'",
        "pg_current_xact_id()::text",  # right now, but of a transaction that is over by then
        "(pg_current_xact_id()::text::bigint + 1000)::text",
    ],
)
@pytest.mark.parametrize("has_written", [False, True])
def test_a_stale_or_forged_marker_does_not_disable_the_floor(
    session: OpenSession, conn: Connection, mp: Milepost, forged: str, *, has_written: bool
) -> None:
    appender = session()
    appender.execute(
        "select set_config('milepost.appending_' || 'milepost.messages'::regclass::oid, "
        f"{forged}, false)"
    )
    for attempt in ("First", "Second"):
        appender.execute("begin")
        if has_written:
            appender.execute("select pg_current_xact_id()")
        append_one(appender, attempt)
        append_one(conn, f"After {attempt}")
        assert f"After {attempt}" not in types_read(mp)
        appender.execute("commit")
        assert types_read(mp)[-2:] == [attempt, f"After {attempt}"]


HOSTILE_FUNCTIONS = [
    "concat(variadic text[]) returns text",
    "concat(text, oid) returns text",
    "texteq(text, text) returns boolean",
    "textne(text, text) returns boolean",
    "textcat(text, text) returns text",
    "current_setting(text, boolean) returns text",
    "set_config(text, text, boolean) returns text",
    "pg_notify(text, text) returns void",
    "pg_current_xact_id() returns xid8",
    "pg_current_xact_id_if_assigned() returns xid8",
    "pg_sequence_last_value(regclass) returns bigint",
    "pg_advisory_xact_lock_shared(bigint) returns void",
    "pg_try_advisory_xact_lock(bigint) returns boolean",
    "pg_try_advisory_xact_lock_shared(bigint) returns boolean",
    "pg_is_in_recovery() returns boolean",
    "pg_current_snapshot() returns pg_snapshot",
    "pg_snapshot_xmin(pg_snapshot) returns xid8",
    "pg_control_system() returns record",
    "current_database() returns name",
    "int8or(bigint, bigint) returns bigint",
    "int8and(bigint, bigint) returns bigint",
    "int8shl(bigint, integer) returns bigint",
    "int8um(bigint) returns bigint",
    "array_agg(bigint) returns bigint[]",
    "text_pair(text, text) returns boolean",
    "text_joined(text, text) returns text",
    "bigint_pair(bigint, bigint) returns boolean",
    "bigint_joined(bigint, bigint) returns bigint",
    "oid_pair(oid, oid) returns boolean",
]
HOSTILE_OPERATORS = [
    *(f"{name} (leftarg = text, rightarg = text, function = hostile.text_pair)" for name in "=<>"),
    *(
        f"{name} (leftarg = bigint, rightarg = bigint, function = hostile.bigint_pair)"
        for name in "=<>"
    ),
    *(
        f"{name} (leftarg = bigint, rightarg = bigint, function = hostile.bigint_joined)"
        for name in "+-|&"
    ),
    "|| (leftarg = text, rightarg = text, function = hostile.text_joined)",
    "= (leftarg = oid, rightarg = oid, function = hostile.oid_pair)",
]


@pytest.fixture
def hostile(session: OpenSession) -> Connection:
    """A session that finds its own operators and functions before those of PostgreSQL."""
    conn = session()
    conn.execute("create schema hostile")
    for signature in HOSTILE_FUNCTIONS:
        conn.execute(
            f"create function hostile.{signature} language plpgsql as "
            "$$ begin raise exception 'hostile code ran as %', current_user; end; $$"
        )
    for signature in HOSTILE_OPERATORS:
        conn.execute(f"create operator hostile.{signature}")
    conn.execute("set search_path = hostile, pg_catalog")
    return conn


INSERT = "insert into milepost.messages (type, data) values ('Hostile', '{}')"


def test_a_hostile_search_path_shadows_what_is_not_qualified(hostile: Connection) -> None:
    """So that the tests below can fail."""
    with pytest.raises(Exception, match="hostile code ran"):
        hostile.execute("select 'a'::text = 'b'::text")


def test_a_hostile_search_path_neither_breaks_the_floor_nor_is_executed(
    hostile: Connection, conn: Connection, mp: Milepost
) -> None:
    hostile.execute("begin")
    hostile.execute(INSERT)
    append_one(conn, "Later")
    assert types_read(mp) == []
    hostile.execute(INSERT)
    hostile.execute("commit")
    wait_until(lambda: sorted(types_read(mp)) == ["Hostile", "Hostile", "Later"])


def test_a_hostile_search_path_is_not_executed_by_horizon(
    hostile: Connection, conn: Connection, session: OpenSession
) -> None:
    append_one(conn)
    holder = session()
    holder.execute("begin")
    append_one(holder)
    hostile.execute("select milepost.horizon(), milepost.append_floor()")
    hostile.execute("select milepost.is_held(milepost.horizon())")


BOUNDARIES = [2**31, 2**32, 2**32 + 2**31, 2**33, 5 * 2**32, 2**40]


@append_order
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_positions_beyond_32_bits_keep_their_floors_where_the_lock_keys_wrap(
    boundary: int, session: OpenSession, conn: Connection, mp: Milepost
) -> None:
    draw_from(conn, boundary - 4)
    below, across, above = session(), session(), session()
    expected: list[int] = []
    for appender, kind in [(below, "Below"), (across, "Across"), (above, "Above")]:
        floor = boundary - 4 + len(expected)
        appender.execute("begin")
        expected += [append_one(appender, kind), append_one(conn), append_one(conn)]
        assert expected == list(range(boundary - 3, floor + 4))
        assert horizon(conn) == 0
    below.execute("commit")
    assert horizon(conn) == boundary - 1
    across.execute("commit")
    assert horizon(conn) == boundary + 2
    above.execute("commit")
    assert horizon(conn) == boundary + 5
    assert positions_read(mp) == expected


@append_order
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_floor_just_below_a_boundary_counts_however_far_the_sequence_has_come(
    boundary: int, session: OpenSession, conn: Connection
) -> None:
    """The horizon counts back from the last position drawn: up to 2^32 - 1 of them."""
    draw_from(conn, boundary - 2)
    append_one(conn)
    appender = session()
    appender.execute("begin")
    append_one(appender)
    for drawn in (2**31 - 1, 2**31, 2**32 - 1):
        draw_from(conn, boundary - 2 + drawn)
        assert append_one(conn) == boundary - 1 + drawn
        assert horizon(conn) == boundary - 1
    appender.execute("commit")
    assert horizon(conn) == boundary - 1 + 2**32 - 1


def test_positions_beyond_32_bits_are_read_in_order(conn: Connection, mp: Milepost) -> None:
    draw_from(conn, 2**32 - 2)
    positions = append(conn, *(Message("T", {"n": n}) for n in range(300)))
    draw_from(conn, 2**62)
    positions += append(conn, Message("Last", {}))
    wait_until(lambda: [m.position for m in mp.read()] == positions)
    assert positions[-1].position == 2**62 + 1
    assert [m.position for m in mp.read(positions[0])] == positions[1:]
