"""A rolling upgrade: schedules that the previous release has as jobs, taken over and given back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from psycopg.errors import LockNotAvailable

from milepost import Cron, Job, Milepost, Repeat
from milepost.db import Connection
from milepost.errors import OldSchedule
from milepost.queue.schedules import Schedule, admin, register
from milepost.queue.schedules.scheduler import Pace
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.schedules.previous_release import (
    OLD,
    TAKE,
    document,
    make_old_due,
    old_end,
    old_jobs,
    old_register,
    old_tick,
)
from tests.integration.queue.schedules.scheduling import (
    EVERY_HOUR,
    HOURLY,
    QUICK,
    column,
    is_anyone_waiting,
    make_due,
    next_at,
    put_jobs,
    scheduler,
)
from tests.integration.queue.worker.working import working
from tests.waiting import wait_until


def test_the_previous_release_ticks_on_until_this_one_registers(
    mp: Milepost, conn: Connection
) -> None:
    old_register(conn)
    make_old_due(conn)
    assert old_tick(conn)
    ((_, run_at, begun),) = old_jobs(conn)
    register(conn, HOURLY, mp.schema)
    assert old_jobs(conn) == []
    assert next_at(conn) == run_at
    assert column(conn, "begun_at") == datetime.fromisoformat(begun)
    assert not old_tick(conn)
    assert put_jobs(conn) == 1


def test_a_cron_schedule_is_taken_over_with_its_next_tick(mp: Milepost, conn: Connection) -> None:
    daily = Cron("0 3 * * *", timezone="Europe/Berlin")
    old_register(conn, daily)
    make_old_due(conn, 3600)
    ((_, run_at, _),) = old_jobs(conn)
    register(conn, Schedule("hourly", daily, Job("reports")), mp.schema)
    assert next_at(conn) == run_at


def test_other_times_begin_when_they_are_registered(mp: Milepost, conn: Connection) -> None:
    old_register(conn)
    make_old_due(conn, 3600)
    register(conn, Schedule("hourly", Repeat(timedelta(days=1)), Job("reports")), mp.schema)
    assert old_jobs(conn) == []
    assert next_at(conn) > datetime.now(UTC) + timedelta(hours=23)


def test_a_tick_that_is_under_way_is_undone_when_the_schedule_is_taken_over(
    mp: Milepost, url: str, conn: Connection, session: OpenSession
) -> None:
    old_register(conn)
    make_old_due(conn)
    other = session()
    taken = other.execute(TAKE).fetchone()
    assert taken is not None
    scheduler(mp, url, HOURLY).run("drained")
    assert put_jobs(conn) == 1
    assert not old_end(other, taken)
    assert put_jobs(conn) == 1


def test_a_tick_that_is_about_to_commit_counts_when_the_schedule_is_taken_over(
    mp: Milepost, url: str, conn: Connection, session: OpenSession
) -> None:
    """The registration waits for it, and goes on from the time that it has set."""
    old_register(conn)
    make_old_due(conn)
    other = session()
    registering = threading.Thread(target=scheduler(mp, url, HOURLY).run, args=["drained"])
    with other.transaction():
        assert old_tick(other)
        registering.start()
        wait_until(lambda: is_anyone_waiting(conn))
    registering.join()
    assert old_jobs(conn) == []
    assert next_at(conn) > datetime.now(UTC) + timedelta(minutes=50)
    assert put_jobs(conn) == 1


def test_a_tick_that_hangs_does_not_block_the_registration_for_ever(
    mp: Milepost, conn: Connection, session: OpenSession
) -> None:
    """It is an error that a scheduler tries again after."""
    old_register(conn)
    make_old_due(conn)
    other = session()
    with other.transaction():
        assert old_tick(other)
        with pytest.raises(LockNotAvailable):
            register(conn, HOURLY, mp.schema)


def test_a_process_of_the_previous_release_that_starts_gets_the_schedule_back(
    mp: Milepost, url: str, conn: Connection
) -> None:
    """So that going back to that release is possible. It keeps the time of its next tick."""
    register(conn, HOURLY, mp.schema)
    make_due(conn)
    scheduler(mp, url).run("drained")
    expected, begun = next_at(conn), column(conn, "begun_at")
    old_register(conn)
    ((name, run_at, state),) = old_jobs(conn)
    assert (name, run_at, datetime.fromisoformat(state)) == ("hourly", expected, begun)
    assert admin.list_schedules(conn, mp.schema)[0].is_old
    old_register(conn)  # and another one
    assert len(old_jobs(conn)) == 1
    scheduler(mp, url).run("drained")
    assert put_jobs(conn) == 1
    make_old_due(conn)
    assert old_tick(conn)
    scheduler(mp, url, HOURLY).run("drained")
    assert old_jobs(conn) == []
    assert put_jobs(conn) == 2


def test_a_paused_schedule_stays_paused_when_the_previous_release_starts(
    mp: Milepost, conn: Connection
) -> None:
    register(conn, HOURLY, mp.schema)
    admin.pause(conn, mp.schema, "hourly")
    old_register(conn)
    assert old_jobs(conn) == []
    assert column(conn, "is_paused")


def test_a_schedule_whose_channel_was_paused_is_taken_over_paused(
    mp: Milepost, conn: Connection
) -> None:
    """Which is how the previous release pauses schedules."""
    old_register(conn)
    conn.execute("insert into milepost.channels (name, is_paused) values (%s, true)", [OLD])
    register(conn, HOURLY, mp.schema)
    assert column(conn, "is_paused")


@pytest.mark.parametrize("is_old_first", [True, False])
def test_both_releases_register_at_the_same_moment(
    mp: Milepost, conn: Connection, session: OpenSession, is_old_first: bool
) -> None:
    """The second waits for the first: there is a row or a job, never both."""
    register_both(mp, conn, session, is_old_first=is_old_first)
    rows = conn.execute("select count(*) from milepost.schedules").fetchone()
    assert (rows, len(old_jobs(conn))) == (((1,), 0) if is_old_first else ((0,), 1))


def test_without_the_lock_both_registrations_stay(
    mp: Milepost, conn: Connection, session: OpenSession
) -> None:
    """So the test above can fail."""
    take_out(conn, "registration lock")
    register_both(mp, conn, session, is_old_first=True)
    rows = conn.execute("select count(*) from milepost.schedules").fetchone()
    assert (rows, len(old_jobs(conn))) == ((1,), 1)


@pytest.mark.parametrize("registers", ["new", "old"])
def test_a_lock_that_anybody_may_take_is_waited_for_in_vain_only_for_a_while(
    mp: Milepost, conn: Connection, session: OpenSession, registers: str
) -> None:
    outsider = session()
    outsider.execute(
        "select pg_advisory_lock(hashtextextended(%s, 'milepost.schedules'::regclass::bigint))",
        [HOURLY.name],
    )
    conn.execute("alter function milepost.put_old_schedule set lock_timeout = '500ms'")
    with pytest.raises(LockNotAvailable, match=rf"pid {outsider.info.backend_pid}\b"):
        register(conn, HOURLY, mp.schema) if registers == "new" else old_register(conn)


def register_both(
    mp: Milepost, conn: Connection, session: OpenSession, *, is_old_first: bool
) -> None:
    first, second = session(), session()
    # Else a registration that waits would give up, if the other one is held up.
    for function in ("register_schedule", "put_old_schedule"):
        conn.execute(f"alter function milepost.{function} set lock_timeout = '1h'".encode())
    done: list[str] = []

    def new(on: Connection) -> None:
        register(on, HOURLY, mp.schema)
        done.append("new")

    steps: list[Callable[[Connection], None]] = [old_register, new]
    begin, follow = steps if is_old_first else steps[::-1]
    thread = threading.Thread(target=follow, args=[second])
    with first.transaction():
        begin(first)
        done.clear()
        thread.start()
        wait_until(lambda: done or is_anyone_waiting(conn))
    thread.join()


# By the default of PostgreSQL, in milliseconds.
GIVES_UP_BEFORE_DEADLOCKS = """
select split_part(config, '=', 2)::interval < boot_val::integer * interval '1 ms'
from pg_proc cross join unnest(proconfig) as config cross join pg_settings
where pg_proc.oid = 'milepost.register_schedule'::regproc and config like 'lock_timeout=%'
  and pg_settings.name = 'deadlock_timeout'
"""


def test_if_both_wait_for_each_other_the_previous_release_goes_on(
    mp: Milepost, conn: Connection, session: OpenSession
) -> None:
    """It changes the job of a schedule first, and then asks for the lock of its name. It does not
    know how to try again. So the registration gives up before PostgreSQL looks for deadlocks; here
    PostgreSQL does not look, or it could come first on a busy machine."""
    assert conn.execute(GIVES_UP_BEFORE_DEADLOCKS).fetchone() == (True,)
    old_register(conn)
    first, second = session(), session()
    for each in (first, second):
        each.execute("set deadlock_timeout = '1h'")
    failures: list[Exception] = []

    def new() -> None:
        try:
            register(second, HOURLY, mp.schema)
        except LockNotAvailable as error:
            failures.append(error)

    thread = threading.Thread(target=new)
    with first.transaction():
        first.execute("update milepost.jobs set content = content where channel = %s", [OLD])
        thread.start()
        wait_until(lambda: failures or is_anyone_waiting(conn))
        old_register(first)
    thread.join()
    assert len(failures) == 1
    assert len(old_jobs(conn)) == 1


def test_what_nobody_of_the_previous_release_ticks_any_more_is_taken_over(
    mp: Milepost, url: str, conn: Connection
) -> None:
    """No application of this release has it in its code: it ticks on, and is orphaned."""
    old_register(conn)
    make_old_due(conn, 60)
    with working(scheduler(mp, url, pace=QUICK)):
        wait_until(lambda: put_jobs(conn) == 1)
        wait_until(lambda: not old_jobs(conn))
    (found,) = admin.list_schedules(conn, mp.schema)
    assert (found.name, found.is_orphaned, found.registered_by) == ("hourly", True, None)


def test_what_a_killed_process_of_the_previous_release_has_taken_is_taken_over(
    mp: Milepost, url: str, conn: Connection
) -> None:
    old_register(conn)
    make_old_due(conn, 60)
    assert conn.execute(TAKE).fetchone() is not None
    conn.execute("update milepost.jobs set locked_until = clock_timestamp() - interval '60 s'")
    with working(scheduler(mp, url, pace=QUICK)):
        wait_until(lambda: put_jobs(conn) == 1)


def test_what_the_previous_release_ticks_is_left_to_it(
    mp: Milepost, url: str, conn: Connection
) -> None:
    old_register(conn)
    make_old_due(conn, 1.0)
    scheduler(mp, url, pace=Pace(beat_seconds=3600.0)).run("drained")  # late by less than a beat
    assert put_jobs(conn) == 0
    assert len(old_jobs(conn)) == 1


def test_a_job_that_cannot_be_read_does_not_stop_the_others(
    mp: Milepost, url: str, conn: Connection
) -> None:
    conn.execute(
        "insert into milepost.jobs (channel, content, unique_key, run_at) "
        "values (%s, '1', 'strange', now() - interval '1 hour')",
        [OLD],
    )
    old_register(conn)
    make_old_due(conn, 60)
    with working(scheduler(mp, url, pace=QUICK)):
        wait_until(lambda: put_jobs(conn) == 1)
    assert [name for name, *_ in old_jobs(conn)] == ["strange"]


def test_bytes_of_the_previous_release_arrive_as_they_were(
    mp: Milepost, url: str, conn: Connection
) -> None:
    """It stores them as Latin-1 in its document, with NUL as an escape."""
    every_byte = bytes(range(256))
    old_register(conn)
    conn.execute(
        "update milepost.jobs set content = %s where channel = %s",
        [document(EVERY_HOUR, every_byte.decode("latin-1")), OLD],
    )
    make_old_due(conn, 60)
    with working(scheduler(mp, url, pace=QUICK)):
        wait_until(lambda: put_jobs(conn) == 1)
    found = conn.execute("select content from milepost.jobs where channel = 'reports'").fetchone()
    assert found == (every_byte,)


def test_operators_see_it_and_can_only_remove_it(mp: Milepost, conn: Connection) -> None:
    old_register(conn)
    (found,) = admin.list_schedules(conn, mp.schema)
    assert (found.name, found.is_old, found.when) == ("hourly", True, "previous release")
    for change in (admin.pause, admin.resume, admin.run_now):
        with pytest.raises(OldSchedule, match="previous release"):
            change(conn, mp.schema, "hourly")
    admin.remove(conn, mp.schema, "hourly")
    assert old_jobs(conn) == []
