"""Times that no datetime can hold: refused where jobs are put, and survived where they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from milepost import Defer, Milepost, TakenJob
from milepost.db import Connection
from milepost.errors import InvalidJob
from milepost.queue import admin, put
from milepost.queue.put import PUT_AT_MOST
from milepost.queue.verbs import take
from milepost.queue.worker.idle import look
from milepost.records import Job
from tests.integration.queue.jobs import statuses
from tests.integration.queue.verbs import defer, fail
from tests.integration.queue.worker.working import working
from tests.waiting import wait_until

FAR = ["infinity", "12000-01-01", "9999-12-31 23:59:59+00"]
EARLY = ["-infinity", "0044-03-15 BC", "0001-01-01 00:00+00"]
COUNTS = [1, 3, PUT_AT_MOST + 1]


def insert(conn: Connection, *times: str) -> None:
    """As in a table that has no such constraint: one of an older release."""
    conn.execute(
        "alter table milepost.jobs drop constraint if exists jobs_run_at_in_years_1_to_9999"
    )
    for time in times:
        conn.execute(
            "insert into milepost.jobs (channel, content, run_at, status) "
            "values ('c', '1', %s::timestamptz, case when %s::timestamptz > now() "
            "then 'scheduled' else 'ready' end::milepost.job_status)",
            [time, time],
        )


@pytest.mark.parametrize("time", FAR + EARLY)
def test_sql_refuses_a_time_that_python_cannot_read(conn: Connection, time: str) -> None:
    for statement in (
        "select milepost.put('c', '1', run_at => %s)",
        "select milepost.put('c', '1', run_at => %s, unique_key => 'k')",
        "select milepost.put_many(array['c'], array['1'], array[%s]::timestamptz[])",
    ):
        with pytest.raises(psycopg.DatabaseError, match=r"run_at is .* 0001-01-02 to 9999-12-30"):
            conn.execute(statement.encode(), [time])
    plain = "insert into milepost.jobs (channel, content, run_at) values ('c', '1', %s)"
    with pytest.raises(psycopg.errors.CheckViolation, match="run_at_in_years_1_to_9999"):
        conn.execute(plain, [time])
    assert not statuses(conn)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "time",
    [
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        timedelta.max,
        timedelta.min,
    ],
)
def test_python_refuses_it_too(conn: Connection, count: int, time: datetime | timedelta) -> None:
    with pytest.raises(InvalidJob, match="run_at"):
        put(conn, *(Job("c") for _ in range(count - 1)), Job("c", run_at=time))
    assert not statuses(conn)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_first_and_the_last_time_are_read_in_every_time_zone(
    conn: Connection, zone: str
) -> None:
    conn.execute("select set_config('timezone', %s, false)", [zone])
    first, last = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
    put(conn, Job("c", run_at=first), Job("c", run_at=last))
    assert [job.run_at for job in admin.list_jobs(conn, "milepost")] == [first, last]
    (job,) = take(conn, 5)
    assert job.run_at == first


@pytest.mark.parametrize("time", FAR + EARLY)
def test_such_a_job_is_listed(conn: Connection, time: str) -> None:
    insert(conn, time)
    (job,) = admin.list_jobs(conn, "milepost")
    assert job.run_at.year in (1, 9999)
    admin.summary(conn, "milepost")
    admin.list_channels(conn, "milepost")


@pytest.mark.parametrize("time", FAR)
def test_a_worker_with_nothing_to_do_waits_beside_such_a_job(conn: Connection, time: str) -> None:
    insert(conn, time)
    seconds, _ = look(conn, "milepost")
    assert seconds is not None
    assert seconds > 1e9


@pytest.mark.parametrize("pattern", ["c", "*"])
def test_a_worker_does_such_jobs_and_their_neighbours(
    conn: Connection, mp: Milepost, pattern: str
) -> None:
    insert(conn, *EARLY, "infinity")
    put(conn, Job("c", 2))
    done: list[int] = []

    @mp.worker(pattern)
    def work(job: TakenJob) -> None:
        assert job.attempt == 1
        done.append(job.content)

    with working(work):
        wait_until(lambda: len(done) == len(EARLY) + 1)
        wait_until(lambda: statuses(conn) == {"scheduled": 1})
    assert sorted(done) == [1, 1, 1, 2]


def test_an_absurd_delay_ends_neither_the_worker_nor_the_job(
    conn: Connection, mp: Milepost
) -> None:
    untils = [
        datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC),
        timedelta(days=3_000_000), None,
    ]  # fmt: skip
    put(conn, *(Job("c", n) for n in range(len(untils))))

    @mp.worker("c")
    def work(job: TakenJob) -> None:
        if job.attempt == 1:
            raise Defer(untils[job.content])

    with working(work):
        wait_until(lambda: statuses(conn) == {"scheduled": 2})
    years = conn.execute("select distinct extract(year from run_at)::integer from milepost.jobs")
    assert years.fetchall() == [(9999,)]


def test_the_verbs_take_the_nearest_time(conn: Connection) -> None:
    put(conn, Job("c"), Job("c"))
    deferred, failed = take(conn, 2)
    defer(conn, [deferred], [timedelta(days=3_000_000)])
    fail(conn, [failed], [timedelta(days=3_000_000)])
    assert [job.run_at.year for job in admin.list_jobs(conn, "milepost")] == [9999, 9999]
