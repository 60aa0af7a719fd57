"""What a role could do with a privilege that it needs for something else."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest
from psycopg.errors import (
    ConfigurationLimitExceeded,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
)

from milepost import Job, Milepost
from milepost.db import Connection
from milepost.errors import ReservedChannel
from tests.roles import Roles, role_of

OPEN = "select milepost.open_spark_write(%s, true)"
NOTE = "select milepost.note_spark_write(%s, 5, 1, false)"
CLOSE = "select milepost.close_spark_write(%s)"
PARKED = (
    "insert into milepost.dead_letters (processor, version, transaction_id, position, message_id, "
    "topic, type, data, metadata, recorded_at, error, traceback, attempts) "
    "select %s, 1, 0, 1, gen_random_uuid(), 't', 'T', '1', '{}', now(), '', '', 1"
)


def text(conn: Connection, query: str, *parameters: object) -> str:
    row = conn.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize(
    "statement",
    [
        "insert into milepost.jobs (id, channel, content) values (2, 'c', '')",
        "insert into milepost.jobs (channel, content, status) values ('c', '', 'dead')",
        "insert into milepost.jobs (channel, content, status) values ('c', '', 'waiting')",
        "select id from milepost.jobs for update",
        "select id from milepost.jobs for key share",
        "update milepost.jobs set unique_for = '1 day'",
        "insert into milepost.job_dependencies (job_id, after_id, on_dead) values (1, 1, 'wait')",
        "insert into milepost.channel_sizes (channel, last_id, jobs) values ('c', 1, 1)",
        "select nextval('milepost.jobs_id_seq')",
        (
            "call milepost.put_job(null, 'milepost.own', '', null, 0, 25, 'k', "
            "null, null, null, null, false, null, null)"
        ),
        (
            "call milepost.put_job(null, 'milepost.schedules', '', null, 0, 25, 'k', "
            "null, null, null, null, false, null, null)"
        ),
        (
            "call milepost.put_jobs(null, array['milepost.own'], array[''::bytea], "
            "null, null, null, null, null, null)"
        ),
    ],
)
def test_a_producer_does_only_what_a_put_does(
    roles: Roles, mp: Milepost, conn: Connection, statement: str
) -> None:
    url = roles.make("put")
    (held,) = mp.put(conn, Job("c", unique_key="k"))
    with psycopg.connect(url, autocommit=True) as own:
        with pytest.raises(psycopg.Error) as refused:
            own.execute(statement.encode())
        assert refused.value.sqlstate in {InsufficientPrivilege.sqlstate, ReservedChannel.sqlstate}
        assert Milepost(url).put(own, Job("c", unique_key="k")) == [held]
        assert Milepost(url).put(own, Job("c")) == [held + 1]


@pytest.mark.parametrize("order", ["append"])
def test_a_grant_of_put_takes_nothing_from_a_worker(roles: Roles, mp: Milepost) -> None:
    url = roles.make("work")
    Milepost(roles.url).grant(role_of(url), "put")
    with psycopg.connect(url, autocommit=True) as own:
        Milepost(url).put(own, Job("c"))
        own.execute(
            "select milepost.complete(array_agg(id), array_agg(attempt)) from milepost.take(1)"
        )
        own.execute("update milepost.jobs set unique_for = null")


@pytest.mark.parametrize("order", ["append"])
def test_an_appender_has_nothing_to_do_with_another_ones_writes_from_spark(roles: Roles) -> None:
    query = uuid4()
    with psycopg.connect(roles.make("append"), autocommit=True) as own:
        staging = text(own, OPEN, query)
        with psycopg.connect(roles.make("append"), autocommit=True) as other:
            for statement, *parameters in (
                (OPEN, query), (NOTE, query), (CLOSE, query),
                (f"copy milepost.{staging} to stdout",), (f"truncate milepost.{staging}",),
                ("select query from milepost.spark_writes",),
                ("update milepost.spark_writes set batch = 9, rows = 1",),
            ):  # fmt: skip
                with pytest.raises((InsufficientPrivilege, ObjectNotInPrerequisiteState)):
                    other.execute(statement.encode(), parameters)
        assert text(own, OPEN, query) == staging
        assert text(own, NOTE, query) == "True"
        own.execute(CLOSE, [query])


@pytest.mark.parametrize("order", ["append"])
def test_a_member_of_an_appender_continues_its_writes(roles: Roles) -> None:
    """As after a change of the password by a second login."""
    first, second = roles.make("append"), roles.make("append")
    query = uuid4()
    with psycopg.connect(first, autocommit=True) as own:
        staging = text(own, OPEN, query)
    roles.run("grant {} to {}", first, second)
    with psycopg.connect(second, autocommit=True) as own:
        assert text(own, OPEN, query) == staging
        assert text(own, NOTE, query) == "True"


@pytest.mark.parametrize("order", ["append"])
def test_an_appender_cannot_fill_the_catalog_with_staging_tables(roles: Roles) -> None:
    with psycopg.connect(roles.make("append"), autocommit=True) as own:
        queries = [uuid4() for _ in range(100)]
        for query in queries:
            own.execute(OPEN, [query])
        with pytest.raises(ConfigurationLimitExceeded, match="has 100 writes from Spark"):
            own.execute(OPEN, [uuid4()])
        own.execute(OPEN, [queries[0]])


@pytest.mark.parametrize("order", ["append"])
def test_a_pipeline_touches_no_processor(roles: Roles, conn: Connection) -> None:
    conn.execute("insert into milepost.processors (name, version) values ('orders', 1)")
    for name in ("orders", "sums"):
        conn.execute("insert into milepost.checkpoints values (%s, 1, 0, 0, 1)", [name])
        conn.execute(PARKED, [name])
    checkpoints = "select processor, position from milepost.checkpoints order by 1"
    letters = "select processor from milepost.dead_letters order by 1"
    with psycopg.connect(roles.make("pipeline"), autocommit=True) as own:
        # The second one tries to pass for a pipeline.
        for name in ("sums", "orders"):
            own.execute(
                "insert into milepost.pipelines (name, version, code_version, sink) "
                "values (%s, 1, 1, 'append')",
                [name],
            )
        held = own.execute("select processor from milepost.checkpoints for update")
        assert held.fetchall() == [("sums",)]
        own.execute("update milepost.checkpoints set position = 7")
        assert conn.execute(checkpoints).fetchall() == [("orders", 1), ("sums", 7)]
        own.execute("update milepost.dead_letters set error = 'mine'")
        own.execute("delete from milepost.dead_letters")
        own.execute("delete from milepost.checkpoints")
        for name in ("orders", "new"):
            with pytest.raises(InsufficientPrivilege, match="row-level security"):
                own.execute("insert into milepost.checkpoints values (%s, 1, 3, 0, 1)", [name])
            with pytest.raises(InsufficientPrivilege, match="row-level security"):
                own.execute(PARKED, [name])
    assert conn.execute(checkpoints).fetchall() == [("orders", 1)]
    assert conn.execute(letters).fetchall() == [("orders",)]
