"""Whatever object a caller has, what it appends and puts is part of its own transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from milepost import Job, Message, Milepost, append, put, put_group
from milepost.db import Connection, one
from milepost.errors import ConnectionUnusable, InvalidJob, InvalidMessage, NotMigrated
from tests.integration.drivers.conftest import Opening
from tests.integration.drivers.kinds import Kind

COUNTS = [1, 5, 250]
JOBS = "select count(*) from milepost.jobs"
NOTES = """
select distinct priority, convert_from(content, 'utf8')::json ->> 'note'
from milepost.jobs order by priority
"""
NOTE = "Ünïcode \\ \t ' \" % %s $1 {},"


@pytest.fixture(autouse=True)
def _several_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the drivers that do not copy."""
    monkeypatch.setattr(import_module("milepost.log.append"), "INSERT_AT_MOST", 100)
    monkeypatch.setattr(import_module("milepost.queue.put"), "PUT_AT_MOST", 100)


def orders(count: int) -> list[Message]:
    return [
        Message("Placed", {"n": n, "note": NOTE}, key=None if n % 3 == 0 else f"k{n}", topic="o")
        for n in range(count)
    ]


def emails(count: int, priority: int = 0) -> list[Job]:
    return [Job("emails", {"n": n, "note": NOTE}, priority=priority) for n in range(count)]


def appended(mp: Milepost) -> list[Any]:
    return [(m.id, m.type, m.data, m.key, m.topic) for m in mp.read()]


def jobs(conn: Connection) -> int:
    return int(one(conn.execute(JOBS).fetchone())[0])


def expected(messages: list[Message]) -> list[Any]:
    return [(m.id, m.type, m.data, m.key, m.topic) for m in messages]


def test_what_is_appended_and_put_is_there_after_the_commit(
    kind: Kind, mp: Milepost, conn: Connection
) -> None:
    messages = [orders(count) for count in COUNTS]
    positions = [p for some in messages for p in kind.run(append(kind.given, *some))]
    ids = [id_ for count in COUNTS for id_ in kind.run(put(kind.given, *emails(count)))]
    ids += [
        id_ for count in COUNTS for id_ in kind.run(put(kind.given, *emails(count, priority=3)))
    ]
    assert appended(mp) == []
    assert jobs(conn) == 0
    kind.commit()
    assert appended(mp) == expected([message for some in messages for message in some])
    assert [m.position for m in mp.read()] == positions
    assert [id_ for (id_,) in conn.execute("select id from milepost.jobs order by id")] == ids
    assert conn.execute(NOTES).fetchall() == [(0, NOTE), (3, NOTE)]


def test_a_rollback_takes_them_along(kind: Kind, mp: Milepost, conn: Connection) -> None:
    for count in COUNTS:
        kind.run(append(kind.given, *orders(count)))
        kind.run(put(kind.given, *emails(count)))
    kind.rollback()
    kind.commit()
    assert appended(mp) == []
    assert jobs(conn) == 0


def test_a_rolled_back_savepoint_takes_its_own_along(
    kind: Kind, mp: Milepost, conn: Connection
) -> None:
    before, after = orders(1), orders(250)
    kind.run(append(kind.given, *before))
    for count in COUNTS:
        kind.undone(lambda: kind.run(append(kind.given, *orders(count))))  # noqa: B023
        kind.undone(lambda: kind.run(put(kind.given, *emails(count))))  # noqa: B023
    kind.run(append(kind.given, *after))
    kind.run(put(kind.given, *emails(2)))
    kind.commit()
    assert appended(mp) == expected([*before, *after])
    assert jobs(conn) == 2


def test_with_autocommit_each_call_is_one_transaction(
    opening: Opening, mp: Milepost, conn: Connection
) -> None:
    kind = opening(autocommit=True)
    messages = [*orders(1), *orders(250)]
    kind.run(append(kind.given, messages[0]))
    kind.run(append(kind.given, *messages[1:]))
    kind.run(put(kind.given, *emails(250)))
    kind.run(put_group(kind.given, emails(2), Job("then")))
    assert appended(mp) == expected(messages)
    assert jobs(conn) == 253


def test_with_autocommit_a_refused_one_leaves_nothing_of_its_call(
    opening: Opening, mp: Milepost, conn: Connection
) -> None:
    kind = opening(autocommit=True)
    with pytest.raises(InvalidMessage):
        kind.run(append(kind.given, *orders(250), Message("Bad", float("nan"))))
    with pytest.raises(InvalidJob):
        kind.run(put(kind.given, *emails(250), Job("emails", float("nan"))))
    assert appended(mp) == []
    assert jobs(conn) == 0
    kind.run(append(kind.given, *orders(1)))
    assert len(appended(mp)) == 1


def test_a_refused_one_leaves_the_transaction_as_it_was(
    kind: Kind, mp: Milepost, conn: Connection
) -> None:
    before = orders(1)
    kind.run(append(kind.given, *before))
    with pytest.raises(InvalidMessage):
        kind.run(append(kind.given, *orders(250), Message("Bad", float("nan"))))
    with pytest.raises(InvalidJob):
        kind.run(put_group(kind.given, emails(2), Job("then", float("nan"))))
    kind.commit()
    assert appended(mp) == expected(before)
    assert jobs(conn) == 0


def test_our_error_leaves_a_failed_transaction_that_a_rollback_ends(
    kind: Kind, mp: Milepost, conn: Connection
) -> None:
    with pytest.raises(NotMigrated):
        kind.run(append(kind.given, *orders(1), schema="nowhere"))
    with pytest.raises(ConnectionUnusable, match="already failed"):
        kind.run(append(kind.given, *orders(1)))
    with pytest.raises(ConnectionUnusable, match="already failed"):
        kind.run(put(kind.given, *emails(1)))
    kind.rollback()
    with pytest.raises(NotMigrated):
        kind.run(put(kind.given, *emails(1), schema="nowhere"))
    kind.rollback()
    kind.run(append(kind.given, *orders(1)))
    kind.run(put(kind.given, *emails(1)))
    kind.commit()
    assert len(appended(mp)) == jobs(conn) == 1


def test_a_transaction_that_its_owner_broke_is_refused(kind: Kind, mp: Milepost) -> None:
    with pytest.raises(Exception, match="division by zero"):
        kind.execute("select 1 / 0")
    for count in (1, 250):
        with pytest.raises(ConnectionUnusable, match="Roll it back"):
            kind.run(append(kind.given, *orders(count)))
    with pytest.raises(ConnectionUnusable, match="Roll it back"):
        kind.run(put(kind.given, *emails(1)))
    kind.rollback()
    kind.run(append(kind.given, *orders(1)))
    kind.commit()
    assert len(appended(mp)) == 1


def test_a_closed_one_is_refused_or_begins_again(
    kind: Kind, mp: Milepost, opening: Opening
) -> None:
    """Sessions of SQLAlchemy and connections of Django begin again with their next statement."""
    if kind.may_be_reopened:
        kind = opening(autocommit=True)
    kind.close()
    if kind.may_be_reopened:
        kind.run(append(kind.given, *orders(1)))
        assert len(appended(mp)) == 1
        return
    for count in (1, 250):
        with pytest.raises(ConnectionUnusable, match="closed"):
            kind.run(append(kind.given, *orders(count)))
    with pytest.raises(ConnectionUnusable, match="closed"):
        kind.run(put(kind.given, *emails(1)))
    assert appended(mp) == []


def test_a_lost_connection_is_replaced_where_its_library_does_so(
    kind: Kind, mp: Milepost, conn: Connection
) -> None:
    kind.run(append(kind.given, *orders(1)))
    conn.execute(
        "select pg_terminate_backend(pid, 60000) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )
    with pytest.raises(Exception, match=r"terminat|closed"):
        kind.run(append(kind.given, *orders(1)))
    if not kind.recovers:
        with pytest.raises(ConnectionUnusable, match="closed"):
            kind.run(append(kind.given, *orders(1)))
        return
    with pytest.raises(ConnectionUnusable):
        kind.run(put(kind.given, *emails(1)))
    kind.rollback()
    after = orders(2)
    kind.run(append(kind.given, *after))
    kind.commit()
    assert appended(mp) == expected(after)


def test_every_option_of_a_job_arrives(kind: Kind, conn: Connection) -> None:
    """As with psycopg, one by one and together."""
    job = Job(
        "emails",
        b"\x00\xff\\",
        run_at=datetime(2031, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
        priority=-7,
        max_attempts=3,
        unique_key="it's",
        state={"n": 1},
        keep_for=timedelta(days=2, microseconds=5),
        unique_for=timedelta(hours=1),
    )
    all_jobs = [job, replace(job, unique_key="other"), Job("emails", run_at=timedelta(hours=-30))]
    columns = """
        select channel, content, case when run_at > now() then run_at end, priority, max_attempts,
          unique_key, state, keep_for, status
        from milepost.jobs order by id
    """
    put(conn, all_jobs[0])
    put(conn, *all_jobs[1:])
    wanted = conn.execute(columns).fetchall()
    conn.execute("truncate milepost.jobs cascade")
    (first,) = kind.run(put(kind.given, all_jobs[0]))
    kind.run(put(kind.given, *all_jobs[1:]))
    kind.run(put(kind.given, Job("after", after=[first])))
    kind.run(put(kind.given, Job("after", after=[first]), Job("after", after=[first])))
    kind.commit()
    assert conn.execute(columns).fetchall()[:3] == wanted
    waiting = "select count(*) from milepost.job_dependencies"
    assert conn.execute(waiting).fetchone() == (3,)


def test_a_group_is_put_or_nothing_of_it(kind: Kind, conn: Connection) -> None:
    ids, last = kind.run(put_group(kind.given, emails(3), Job("then")))
    kind.commit()
    assert conn.execute("select id from milepost.jobs order by id").fetchall() == [
        (id_,) for id_ in [*ids, last]
    ]
