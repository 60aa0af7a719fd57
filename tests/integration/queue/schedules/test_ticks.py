"""Every tick is put once; what is missed is put once, together; one that fails stops no other."""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from milepost import Cron, Job, Milepost, Repeat, TakenJob, put
from milepost.db import Connection
from milepost.errors import InvalidJob, UnknownProcessor
from milepost.queue.schedules import Schedule, register
from milepost.queue.schedules import scheduler as scheduling
from milepost.queue.schedules.scheduler import Due, Ticking
from milepost.retry import Retry
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.schedules.fleet import Harm, fleet_of
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
from tests.integration.queue.worker.working import PATIENCE_SECONDS, working
from tests.waiting import wait_until

TICK = "select milepost.tick_schedule('hourly', %s, %s)"
END_SESSIONS = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where application_name = 'milepost schedules' and datname = current_database()
"""


def test_a_schedule_puts_its_job_at_every_tick(mp: Milepost, url: str, conn: Connection) -> None:
    one_ = scheduler(mp, url, HOURLY)
    one_.run("drained")
    assert put_jobs(conn) == 0
    for tick in range(1, 4):
        make_due(conn)
        one_.run("drained")
        assert put_jobs(conn) == tick
    newest = conn.execute("select max(id) from milepost.jobs").fetchone()
    assert (column(conn, "last_job_id"),) == newest
    assert column(conn, "last_tick_at") > datetime.now(UTC) - timedelta(minutes=5)


# Of each field of a job, something that is not its default.
FULL = Job(
    "reports",
    b"\0\xff any bytes",
    run_at=timedelta(hours=3),
    priority=-3,
    max_attempts=7,
    unique_key="once",
    state={"seen": [1]},
    keep_for=timedelta(days=2),
    replace=True,
    unique_for=timedelta(hours=4),
)


def test_a_tick_puts_the_job_with_all_that_it_has(mp: Milepost, url: str, conn: Connection) -> None:
    """As if the same job were put directly. A new field of Job belongs into the schedule too, or is
    refused, as jobs to wait for are."""
    plain = Job("reports")
    same = [f.name for f in fields(Job) if getattr(FULL, f.name) == getattr(plain, f.name)]
    assert same == ["channel", "after", "on_dead"]
    with pytest.raises(InvalidJob, match="every tick would wait for the same ones"):
        Schedule("chained", EVERY_HOUR, Job("reports", after=[1]))
    scheduler(mp, url, Schedule("full", EVERY_HOUR, FULL)).run("drained")
    make_due(conn)
    scheduler(mp, url).run("drained")
    put(conn, replace(FULL, channel="direct"))
    differing = {"id", "channel", "run_at", "created_at"}
    by_tick, directly = [
        {name: value for name, value in row.items() if name not in differing}
        for (row,) in conn.execute("select to_jsonb(j) from milepost.jobs as j order by id")
    ]
    assert by_tick == directly
    run_at = conn.execute("select bool_and(run_at > now() + interval '2 h') from milepost.jobs")
    assert run_at.fetchone() == (True,)


def test_ticks_that_were_missed_are_put_once_and_later_ones_keep_their_times(
    mp: Milepost, url: str, conn: Connection
) -> None:
    scheduler(mp, url, HOURLY).run("drained")
    first = next_at(conn)
    make_due(conn, ticks_missed=5)
    scheduler(mp, url).run("drained")
    assert put_jobs(conn) == 1
    assert next_at(conn) == first


def test_a_scheduler_that_runs_puts_each_tick_however_late_it_is() -> None:
    """Unless it is so late that it did not really run: frozen, or its server was gone."""
    begun = datetime(2030, 1, 1, tzinfo=UTC)
    second = timedelta(seconds=1)

    def following(late: timedelta, since: datetime) -> timedelta:
        due = Due("s", second, None, None, begun, begun + second, 0, begun + second + late, 0.0)
        return due.tick_after(since) - begun

    assert following(3.5 * second, begun) == 2 * second
    assert following(9.5 * second, begun) == 2 * second
    assert following(60.5 * second, begun) == 62 * second
    # Nobody ran when it was due: it is missed, unless another scheduler has just taken over.
    assert following(4.5 * second, begun + 5 * second) == 6 * second
    assert following(1.5 * second, begun + 2 * second) == 2 * second


def test_registering_again_keeps_the_next_tick_and_other_times_begin_now(
    mp: Milepost, conn: Connection
) -> None:
    register(conn, HOURLY, mp.schema)
    before, begun = next_at(conn), column(conn, "begun_at")
    register(conn, replace(HOURLY, job=Job("reports", "changed")), mp.schema)
    assert (next_at(conn), column(conn, "begun_at")) == (before, begun)
    assert column(conn, "content") == b'"changed"'
    register(conn, replace(HOURLY, when=Repeat(timedelta(days=1))), mp.schema)
    assert next_at(conn) > before + timedelta(hours=22)
    assert column(conn, "begun_at") > begun
    register(conn, replace(HOURLY, when=Cron("0 0 1 1 *")), mp.schema)
    assert column(conn, "every") is None
    assert next_at(conn).replace(year=2000) == datetime(2000, 1, 1, tzinfo=UTC)


def merge_no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late they are: a busy machine may hold the schedulers up for as long as this."""
    for limit in ("TAKE_OVER", "MISSED"):
        monkeypatch.setattr(scheduling, limit, timedelta(days=1))


@pytest.mark.parametrize("guard", [None, "times of a registered schedule"])
def test_two_processes_that_register_it_first_begin_with_the_same_tick(
    mp: Milepost, conn: Connection, session: OpenSession, guard: str | None
) -> None:
    """The later one goes on from the row of the other, which it has not seen at first."""
    if guard:
        take_out(conn, guard)
    first, second = session(), session()
    thread = threading.Thread(target=register, args=[second, HOURLY, mp.schema])
    with first.transaction():
        register(first, HOURLY, mp.schema)
        kept = next_at(first)
        thread.start()
        wait_until(lambda: is_anyone_waiting(conn))
    thread.join()
    assert (next_at(conn) == kept) is (guard is None)


def tick_in_two_sessions(conn: Connection, session: OpenSession) -> None:
    """The second one ticks while the first has not committed, and again afterwards. The following
    tick is due too."""
    make_due(conn, ticks_missed=3)
    due, following = next_at(conn), next_at(conn) + timedelta(hours=1)
    first, second = session(), session()
    answers: list[Any] = []

    def tick() -> None:
        answers.append(second.execute(TICK, [due, following]).fetchone())

    thread = threading.Thread(target=tick)
    with first.transaction():
        assert first.execute(TICK, [due, following]).fetchone() != (None,)
        thread.start()
        wait_until(lambda: answers or is_anyone_waiting(conn))
    thread.join()
    tick()


def test_two_sessions_put_a_tick_once(mp: Milepost, conn: Connection, session: OpenSession) -> None:
    register(conn, HOURLY, mp.schema)
    tick_in_two_sessions(conn, session)
    assert put_jobs(conn) == 1


@pytest.mark.parametrize("guard", ["tick's fence", "tick's lock"])
def test_without_its_guard_a_tick_is_put_twice(
    mp: Milepost, conn: Connection, session: OpenSession, guard: str
) -> None:
    """So the test above can fail."""
    register(conn, HOURLY, mp.schema)
    take_out(conn, guard)
    tick_in_two_sessions(conn, session)
    assert put_jobs(conn) == 2


def test_a_tick_is_never_early(mp: Milepost, conn: Connection) -> None:
    register(conn, HOURLY, mp.schema)
    due = next_at(conn)
    assert conn.execute(TICK, [due, due + timedelta(hours=1)]).fetchone() == (None,)
    assert put_jobs(conn) == 0


def test_many_schedulers_put_each_tick_once(
    mp: Milepost, url: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job for each tick since the registration, and none besides."""
    merge_no_ticks(monkeypatch)
    every = timedelta(milliseconds=50)
    often = Schedule("often", Repeat(every), Job("reports"))
    with working(*[scheduler(mp, url, often) for _ in range(4)]):
        wait_until(lambda: put_jobs(conn) >= 40)
    begun, following = column(conn, "begun_at", "often"), next_at(conn, "often")
    assert put_jobs(conn) == (following - begun) // every - 1


def test_an_application_runs_its_schedules_beside_its_workers(mp: Milepost) -> None:
    seen: list[object] = []

    @mp.worker("reports")
    def report(job: TakenJob) -> None:
        seen.append(job.content)

    mp.schedule("quick", Repeat(timedelta(milliseconds=200)), Job("reports", "tick"))
    assert [member.name for member in mp.members()] == ["reports", "milepost.schedules"]
    with working(*mp.members()):
        wait_until(lambda: len(seen) >= 3)
    assert set(seen) == {"tick"}
    with pytest.raises(ValueError, match="already"):
        mp.schedule("quick", EVERY_HOUR, Job("reports"))


def test_the_scheduler_runs_alone_by_its_name(mp: Milepost, conn: Connection) -> None:
    with pytest.raises(UnknownProcessor):
        mp.members(["milepost.schedules"])

    @mp.worker("reports")
    def report(job: TakenJob) -> None:
        raise AssertionError("only the scheduler runs")

    mp.schedule("hourly", EVERY_HOUR, Job("reports"))
    mp.run(["milepost.schedules"], until="drained")
    make_due(conn)
    mp.run(["milepost.schedules"], until="drained")
    assert put_jobs(conn) == 1
    with pytest.raises(UnknownProcessor, match=r"milepost\.schedules"):
        mp.members(["another"])


def test_a_schedule_that_fails_does_not_stop_the_others(
    mp: Milepost, url: str, conn: Connection
) -> None:
    """One puts into a full channel, one has a time zone that this host does not know."""
    mp.set_channel("full", max_size=1)
    put(conn, Job("full"))
    scheduler(mp, url, HOURLY, Schedule("full", EVERY_HOUR, Job("full"))).run("drained")
    register(conn, Schedule("strange", Cron("0 * * * *"), Job("reports")), mp.schema)
    conn.execute("update milepost.schedules set timezone = 'Mars/Base' where name = 'strange'")
    make_due(conn)
    due = next_at(conn, "full")
    with working(scheduler(mp, url, pace=QUICK)):
        wait_until(lambda: put_jobs(conn) == 1)
        wait_until(lambda: column(conn, "failures", "full") >= 2)
        wait_until(lambda: column(conn, "failures", "strange") >= 2)
        assert "ChannelFull: channel full is full" in column(conn, "last_error", "full")
        assert "no time zone 'Mars/Base'" in column(conn, "last_error", "strange")
        assert next_at(conn, "full") == due  # it is still due
        conn.execute("delete from milepost.jobs where channel = 'full'")
        wait_until(lambda: put_jobs(conn, "full") == 1)
    assert column(conn, "failures", "full") == 0
    assert column(conn, "last_error", "full") is None
    assert column(conn, "retry_at", "full") is None


def test_a_failure_is_counted_once_and_the_pauses_grow(
    mp: Milepost, url: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pauses of hours: none is over before it is looked at."""
    slowly = Retry(limit=2**31, first_seconds=3600.0, longest_seconds=1e9, jitter=0.0)
    monkeypatch.setattr(scheduling, "RETRY", slowly)
    mp.set_channel("full", max_size=1)
    put(conn, Job("full"))
    register(conn, Schedule("hourly", EVERY_HOUR, Job("full")), mp.schema)
    make_due(conn)
    pauses = []
    for failures in range(1, 5):
        scheduler(mp, url).run("drained")
        scheduler(mp, url).run("drained")  # not again before the pause is over
        assert column(conn, "failures") == failures
        pauses.append(column(conn, "retry_at - clock_timestamp()"))
        conn.execute("update milepost.schedules set retry_at = clock_timestamp()")
    assert pauses == sorted(pauses)
    assert pauses[-1] > timedelta(hours=7)


def test_a_job_whose_key_is_being_put_elsewhere_delays_no_other_schedule_for_long(
    mp: Milepost, url: str, conn: Connection, session: OpenSession
) -> None:
    """The put waits for the other transaction, for the time limit of a tick."""
    keyed = Schedule("keyed", EVERY_HOUR, Job("keyed", unique_key="k"))
    scheduler(mp, url, HOURLY, keyed).run("drained")
    make_due(conn)
    conn.execute("update milepost.schedules set next_at = next_at - interval '1 s' "
                 "where name = 'keyed'")  # fmt: skip
    other = session()
    with other.transaction():
        put(other, Job("keyed", unique_key="k"))
        scheduler(mp, url).run("drained")
        assert put_jobs(conn) == 1
        assert "lock timeout" in column(conn, "last_error", "keyed")


def test_a_scheduler_waits_for_a_server_that_was_lost(
    mp: Milepost, url: str, conn: Connection
) -> None:
    often = Schedule("often", Repeat(timedelta(milliseconds=100)), Job("reports"))
    with working(scheduler(mp, url, often)):
        wait_until(lambda: put_jobs(conn) >= 2)
        assert conn.execute(END_SESSIONS).fetchone() == (1,)
        before = put_jobs(conn)
        wait_until(lambda: put_jobs(conn) >= before + 3)


def test_a_row_that_python_could_not_read_is_refused(mp: Milepost, conn: Connection) -> None:
    """It would stop all the others."""
    register(conn, HOURLY, mp.schema)
    for moment in ("infinity", "-infinity", "0044-03-15 BC", "12000-01-01"):
        for name in map(sql.Identifier, ("next_at", "begun_at", "retry_at")):
            with pytest.raises(psycopg.errors.CheckViolation):
                conn.execute(
                    sql.SQL("update milepost.schedules set {} = %s").format(name), [moment]
                )


@pytest.mark.parametrize("harm", ["kill", "freeze", "cut off"])
def test_when_a_scheduler_is_killed_or_frozen_another_puts_the_next_tick_in_time(
    url: str, conn: Connection, harm: Harm
) -> None:
    """No tick is lost or doubled: job N is that of tick N."""
    with fleet_of(2, url, conn) as fleet:
        fleet.harm(harm)
        fleet.harm(harm)
    assert put_jobs(conn) == fleet.ticks()
    assert min(fleet.lateness()) >= 0.0


@pytest.mark.parametrize("harm", ["freeze", "cut off"])
def test_a_scheduler_that_is_held_up_before_its_tick_makes_no_other_one_wait(
    mp: Milepost, url: str, conn: Connection, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """It has seen that a tick is due. The first look of another one puts it."""
    has_seen, may_go_on = threading.Event(), threading.Event()
    tick = Ticking._tick

    def tick_later(self: Ticking, conn: Connection, due: Due, since: datetime) -> bool:
        if not has_seen.is_set():
            has_seen.set()
            assert may_go_on.wait(PATIENCE_SECONDS)
        return tick(self, conn, due, since)

    register(conn, HOURLY, mp.schema)
    make_due(conn)
    monkeypatch.setattr(Ticking, "_tick", tick_later)
    with working(scheduler(mp, url)):
        try:
            assert has_seen.wait(PATIENCE_SECONDS)
            if harm == "cut off":
                assert conn.execute(END_SESSIONS).fetchone() == (1,)
            scheduler(mp, url).run("drained")
            assert put_jobs(conn) == 1
        finally:
            may_go_on.set()
    assert put_jobs(conn) == 1
