"""A log that was dumped and restored, or copied: nothing lost, order kept, no position given twice.

Reading and appending are refused until rebase() has made sure. In a younger cluster, in transaction
order, the old ids come from its future.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from milepost import Message, Milepost, Newer, Position, append, db
from milepost.db import Connection
from milepost.errors import LogRestored, PositionLost
from tests.server import TestServer, postgres, postgres_in, program_of_server

transaction_order = pytest.mark.parametrize("order", ["transaction"])
append_order = pytest.mark.parametrize("order", ["append"])
IDS_AHEAD = 20_000
USE_UP_IDS = """
do $$
begin
  for n in 1..%d loop
    perform pg_current_xact_id();
    commit;
  end loop;
end;
$$
"""


@pytest.fixture(scope="module")
def younger() -> Iterator[TestServer]:
    """A second cluster, which has used few transaction ids."""
    # Without autovacuum: its ANALYZE holds the horizon of a log in transaction order for a moment.
    with (
        postgres({"autovacuum": "off"}) as embedded,
        closing(TestServer(embedded.start())) as started,
    ):
        yield started


@pytest.fixture
def elder(conn: Connection, mp: Milepost) -> list[Position]:
    """The positions of a log whose cluster has used many ids, as they were dumped."""
    dumped_by = postgres_in(Path()).version
    if conn.info.server_version // 10000 > dumped_by:
        pytest.skip(f"the server under test is newer than the pg_dump at hand, {dumped_by}")
    used = conn.execute("select pg_current_xact_id()::text::bigint").fetchone()
    assert used is not None
    conn.execute(USE_UP_IDS % max(0, IDS_AHEAD - used[0]))
    with conn.transaction():
        first = append(conn, Message("Old", {"n": 0}), Message("Old", {"n": 1}))
    with conn.transaction(force_rollback=True):
        append(conn, Message("Undone", {}))
    return first + append(conn, *(Message("Old", {"n": n}, key=f"k{n}") for n in range(2, 300)))


@pytest.fixture
def restored(elder: list[Position], url: str, younger: TestServer, tmp_path: Path) -> Iterator[str]:
    """The URL of the log in the younger cluster."""
    name = younger.create_database("restored")
    move(url, younger.url(name), tmp_path / "log.dump")
    yield younger.url(name)
    younger.drop_database(name)


def move(source: str, target: str, file: Path) -> None:
    run("pg_dump", "--format=custom", f"--file={file}", f"--dbname={source}")
    run("pg_restore", "--exit-on-error", f"--dbname={target}", str(file))


def run(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [program_of_server(program), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def positions_read(mp: Milepost, start: Position = Position.BEGINNING) -> list[Position]:
    return [message.position for message in mp.read(start)]


def rebase(url: str) -> str:
    with db.connect(url) as conn:
        row = conn.execute("select milepost.rebase()").fetchone()
    assert row is not None
    return str(row[0])


@transaction_order
def test_the_ids_of_the_elder_come_from_the_future_of_the_younger(
    elder: list[Position], restored: str
) -> None:
    """So that the tests below mean something."""
    with db.connect(restored) as conn:
        row = conn.execute("select pg_current_xact_id()::text::bigint").fetchone()
    assert row is not None
    assert row[0] < elder[0].transaction_id


def test_a_restored_log_refuses_to_be_read(restored: str) -> None:
    mp = Milepost(restored)
    with pytest.raises(LogRestored, match="Run: milepost rebase"):
        list(mp.read())
    with pytest.raises(LogRestored, match="Run: milepost rebase"):
        mp.horizon()
    with db.connect(restored) as conn, pytest.raises(psycopg.Error) as caught:
        conn.execute("select milepost.read()")
    assert caught.value.sqlstate == "MP003"


@pytest.mark.parametrize("count", [1, 2, 300])
def test_a_restored_log_refuses_to_be_appended_to(
    elder: list[Position], restored: str, count: int
) -> None:
    with db.connect(restored) as conn:
        with pytest.raises(LogRestored, match="Run: milepost rebase"):
            append(conn, *[Message("Too early", {})] * count)
        with pytest.raises(psycopg.Error) as caught:
            conn.execute("insert into milepost.messages (type, data) values ('T', '{}')")
        assert caught.value.sqlstate == "MP003"
        assert count_of(conn) == len(elder)


def count_of(conn: Connection) -> int:
    row = conn.execute("select count(*) from milepost.messages").fetchone()
    assert row is not None
    return int(row[0])


def test_a_restored_log_goes_on_with_nothing_lost_and_its_order_kept(
    elder: list[Position], restored: str
) -> None:
    mp = Milepost(restored)
    rebase(restored)
    assert positions_read(mp) == elder
    with mp.connect() as conn:
        new = append(conn, Message("New", {}))
        new += append(conn, *(Message("New", {"n": n}) for n in range(300)))
    assert positions_read(mp) == elder + new == sorted(elder + new)
    assert [m.data["n"] for m in mp.read(types=["Old"])] == list(range(300))


def test_a_reader_that_stopped_half_way_before_the_dump_goes_on_exactly(
    elder: list[Position], restored: str, mp: Milepost
) -> None:
    with mp.reader(batch_size=120) as before:
        seen = [message.position for message in before.read().messages]
    rebase(restored)
    moved = Milepost(restored)
    with moved.connect() as conn:
        new = append(conn, Message("New", {}))
    with moved.reader(before.after, batch_size=120) as after:
        rest = [message.position for message in after.messages()]
    assert seen + rest == elder + new


def test_a_reader_that_had_caught_up_with_the_horizon_before_the_dump_misses_nothing_new(
    elder: list[Position], restored: str, mp: Milepost, conn: Connection
) -> None:
    """The horizon goes on without messages: where it stood, the dump does not tell."""
    conn.execute(USE_UP_IDS % 1000)
    with mp.reader(elder[-1]) as caught_up:
        assert caught_up.read().messages == []
    rebase(restored)
    moved = Milepost(restored)
    with moved.connect() as appender:
        new = append(appender, Message("New", {}))
    assert positions_read(moved, caught_up.after) == new


@append_order
def test_a_reader_that_had_passed_what_was_rolled_back_misses_nothing_after_a_rebase(
    elder: list[Position], mp: Milepost, conn: Connection
) -> None:
    """The sequence had drawn more positions than there are rows to tell of it."""
    with conn.transaction(force_rollback=True):
        append(conn, *(Message("Undone", {}) for _ in range(300)))
    with mp.reader(elder[-1]) as caught_up:
        assert caught_up.read().messages == []
    conn.execute("select setval('milepost.messages_position_seq', 1)")
    conn.execute("select milepost.rebase()")
    new = append(conn, Message("New", {}))
    assert positions_read(mp, caught_up.after) == new


def test_the_log_that_was_dumped_is_not_disturbed(
    elder: list[Position], restored: str, mp: Milepost, conn: Connection
) -> None:
    rebase(restored)
    new = append(conn, Message("New", {}))
    assert positions_read(mp) == elder + new


@transaction_order
def test_transactions_that_were_open_during_a_rebase_append_above_the_old_messages(
    elder: list[Position], restored: str
) -> None:
    """Its id is older than the one that rebases."""
    mp = Milepost(restored)
    with mp.connect() as early:
        early.execute("begin")
        early.execute("create table things (n integer)")
        rebase(restored)
        (new,) = append(early, Message("New", {}))
        early.execute("commit")
    assert new > elder[-1]
    assert positions_read(mp) == [*elder, new]


def test_a_log_may_be_moved_again_and_again(
    elder: list[Position], restored: str, younger: TestServer, tmp_path: Path
) -> None:
    rebase(restored)
    with db.connect(restored) as conn:
        expected = elder + append(conn, Message("Second home", {}))
    name = younger.create_database("again")
    again = younger.url(name)
    move(restored, again, tmp_path / "again.dump")
    try:
        mp = Milepost(again)
        with pytest.raises(LogRestored, match="from a dump"):
            list(mp.read())
        rebase(again)
        assert positions_read(mp) == expected
        with mp.connect() as conn:
            expected += append(conn, Message("Third home", {}))
        assert positions_read(mp) == expected
    finally:
        younger.drop_database(name)


@transaction_order
def test_ids_from_the_future_are_found_even_where_the_cluster_seems_to_be_the_same(
    elder: list[Position], restored: str
) -> None:
    """A physical copy of a cluster, whose identifier it shares."""
    with db.connect(restored) as conn:
        conn.execute("select milepost.set_place()")
        with pytest.raises(LogRestored):
            append(conn, Message("Too early", {}))
    mp = Milepost(restored)
    with pytest.raises(LogRestored):
        list(mp.read())
    rebase(restored)
    assert positions_read(mp) == elder


@append_order
def test_rows_without_their_sequence_are_detected_and_repaired(
    elder: list[Position], conn: Connection, mp: Milepost
) -> None:
    """As logical replication, or a load of the data alone, leaves them."""
    conn.execute("select setval('milepost.messages_position_seq', 1)")
    with pytest.raises(LogRestored, match="Run: milepost rebase"):
        list(mp.read())
    with pytest.raises(LogRestored, match="Run: milepost rebase"):
        mp.horizon()
    with mp.connect() as appender, pytest.raises(LogRestored, match="Run: milepost rebase"):
        append(appender, Message("Would fill a gap", {}))
    conn.execute("select milepost.rebase()")
    assert positions_read(mp) == elder
    new = append(conn, Message("New", {}))
    assert new[0] > elder[-1]
    assert positions_read(mp) == elder + new


@append_order
def test_rows_with_a_sequence_that_was_never_drawn_from_are_detected(
    elder: list[Position], conn: Connection, mp: Milepost
) -> None:
    conn.execute("alter table milepost.messages alter column position restart")
    with pytest.raises(LogRestored):
        list(mp.read())
    conn.execute("select milepost.rebase()")
    assert positions_read(mp) == elder


def test_rebasing_a_healthy_log_changes_nothing_that_can_be_seen(
    elder: list[Position], conn: Connection, mp: Milepost, url: str
) -> None:
    with mp.reader("end") as reader:
        rebase(url)
        answers = {rebase(url), rebase(url)}
        new = append(conn, Message("New", {}))
        assert [message.position for message in reader.messages()] == new
    assert len(answers) == 1
    assert positions_read(mp) == elder + new == sorted(elder + new)


def test_rebasing_twice_is_as_good_as_once(elder: list[Position], restored: str) -> None:
    rebase(restored)
    assert rebase(restored).startswith("nothing")
    mp = Milepost(restored)
    with mp.connect() as conn:
        new = append(conn, Message("New", {}))
        rebase(restored)
        new += append(conn, Message("New", {}))
    assert positions_read(mp) == elder + new == sorted(elder + new)


def test_rebasing_waits_for_appenders_in_flight(conn: Connection, url: str, mp: Milepost) -> None:
    with db.connect(make_conninfo(url, options="-c lock_timeout=50ms")) as impatient:
        with conn.transaction():
            position = append(conn, Message("In flight", {}))
            with pytest.raises(psycopg.errors.LockNotAvailable):
                impatient.execute("select milepost.rebase()")
        impatient.execute("select milepost.rebase()")
    assert positions_read(mp) == position


def test_an_empty_log_can_be_rebased(conn: Connection, mp: Milepost, url: str) -> None:
    rebase(url)
    new = append(conn, Message(f"New {uuid4()}", {}))
    assert positions_read(mp) == new


@dataclass(frozen=True)
class Copied:
    """A log that was copied within its cluster, and what was appended to the original since."""

    url: str
    old: list[Position]
    later: list[Position]


@pytest.fixture(params=["dump", "template", "dump into the same database"])
def copied(
    request: pytest.FixtureRequest, server: TestServer, mp: Milepost, url: str, tmp_path: Path
) -> Iterator[Copied]:
    mp.migrate(key_index=True)
    old, dump = append_some(mp, 3), tmp_path / "dump"
    if request.param == "dump into the same database":
        run("pg_dump", "--format=custom", f"--file={dump}", f"--dbname={url}")
        later = append_some(mp, 2)
        run("pg_restore", "--clean", "--exit-on-error", f"--dbname={url}", str(dump))
        yield Copied(url, old, later)
        return
    is_template = request.param == "template"
    name = server.create_database("copy", name_of(url) if is_template else "template0")
    if not is_template:
        move(url, server.url(name), dump)
    yield Copied(server.url(name), old, append_some(mp, 2))
    server.drop_database(name)


def name_of(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])


def append_some(mp: Milepost, count: int) -> list[Position]:
    with mp.connect() as conn:
        return append(conn, *(Message("T", {}, key="k") for _ in range(count)))


def test_a_copy_in_the_same_cluster_gives_no_position_twice(copied: Copied) -> None:
    mp = Milepost(copied.url)
    with pytest.raises(LogRestored, match="Run: milepost rebase"):
        list(mp.read())
    with pytest.raises(LogRestored, match="Run: milepost rebase"):
        append_some(mp, 1)
    with mp.connect() as conn, pytest.raises(LogRestored):
        append(conn, Message("T", {}), unless=Newer(key="k", after=copied.later[-1]))

    assert "are lost" in rebase(copied.url)
    assert rebase(copied.url).startswith("nothing")
    new = append_some(mp, 3)
    assert min(new) > max(copied.later)
    assert positions_read(mp) == copied.old + new
    for seen in copied.later:
        with pytest.raises(PositionLost) as lost:
            positions_read(mp, seen)
        assert (lost.value.position, lost.value.continue_from) == (seen, copied.old[-1])
    assert positions_read(mp, copied.old[-1]) == new


def test_an_empty_log_can_be_copied(server: TestServer, mp: Milepost, url: str) -> None:
    """As test runners do, with a database that was just migrated."""
    name = server.create_database("copy", name_of(url))
    copy = Milepost(server.url(name))
    try:
        for log in (mp, copy):
            assert positions_read(log) == []
            new = append_some(log, 1)
            assert positions_read(log) == new
    finally:
        server.drop_database(name)


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_the_first_appenders_do_not_wait_for_each_other(url: str, isolation: str) -> None:
    """The first one notes where the log is. If it rolls back, another one does."""
    with db.connect(url) as first, db.connect(url) as second:
        for conn in (first, second):
            conn.execute(f"begin isolation level {isolation}".encode())
            conn.execute("set local lock_timeout = '10s'")
            conn.execute("select 1")
        append(first, Message("T", {}))
        append(second, Message("T", {}))
        second.execute("commit")
        first.execute("rollback")
        assert count_places(first) == 0
        append(second, Message("T", {}))
        assert count_places(first) == 1


def count_places(conn: Connection) -> int:
    return int(db.one(conn.execute("select count(database_oid) from milepost.log").fetchone())[0])


def test_a_log_that_was_upgraded_after_a_restore_is_rebased(mp: Milepost, url: str) -> None:
    """As production.md says: migrate, then rebase. The dump did not have the new columns."""
    old = append_some(mp, 1)
    with mp.connect() as conn:
        conn.execute("update milepost.log set database_oid = null, table_oid = null")
    assert positions_read(mp) == old
    assert "are lost" in rebase(url)
    assert rebase(url).startswith("nothing")
