"""A role that may only connect takes our advisory locks. The doctor names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from milepost import Milepost, sql
from milepost.db import Connection
from milepost.health import Check, Limits
from milepost.sql import LogOrder
from tests.roles import Roles
from tests.waiting import wait_until

SQL = Path(sql.__file__).parent
LOCKING = re.compile(r"pg_(try_)?advisory_(xact_)?lock|\bawait_lock\(")
PREPARE = (
    "insert into milepost.processors (name, version) values ('p', 1)",
    """insert into milepost.pipelines (name, version, code_version, sink, target_schema, target)
    values ('p', 1, 1, 'upsert', 'public', 'view')""",
    """insert into milepost.schedules (name, every, begun_at, next_at, channel, content)
    values ('s', '1 day', now(), now(), 'c', '')""",
    """insert into milepost.instances (processor, version, owner, alive_until)
    values ('p', 1, 'o', now() + interval '1 hour')""",
    "select milepost.store_checkpoint('p', 1, 0, null, row(0, 0)::milepost.position)",
    "select milepost.create_staging('staging_p', array['a'], array['text'])",
)
# For each file that takes a lock, what takes it, and how the doctor calls it.
TAKING: dict[str, tuple[str, str]] = {
    "before_append": (
        "select milepost.append('T', '1')",
        "the (floor of an append|notification of appends)",
    ),
    "queue_wake": ("select milepost.put('c', '1')", "the notification of puts"),
    "lock_key": ("select milepost.lock_key('k')", "the appends to a key"),
    "reset_processor": (
        "select milepost.reset_processor('p', 1, row(0, 0)::milepost.position)",
        "the removal of old messages",
    ),
    "remove_messages": (
        "select milepost.remove_messages(1, row(0, 0)::milepost.position)",
        "the removal of old messages",
    ),
    "create_staging": (PREPARE[-1], "the staging table staging_p"),
    "await_lock": ("select milepost.lock_key('k')", "the appends to a key"),
    "store_checkpoint": (
        """select milepost.store_checkpoint(
        'p', 1, 0, row(0, 0)::milepost.position, row(0, 1)::milepost.position, 0, 'o')""",
        "the instance 'o'",
    ),
    "index_lock": ("", "the creation of indexes"),
    "archive_lock": ("", "the archive"),
    "archive_keep_files": ("", "the files of the archive"),
    "archive_sweep_files": ("", "the files of the archive"),
    "demo_lock": ("", "the demo"),
    "migration_lock": ("", "migrations"),
    "pipeline_lock": ("", "the pipeline 'p'"),
    "target_lock": ("", "the target 'view'"),
    "turn_take": ("", "the (turn of the processor 'p'|instance 'o')"),
    "turn_take_in_transaction": ("", "the (turn of the processor 'p'|instance 'o')"),
    "parked_hold": ("", "a parked key"),
}
PARAMETERS = {
    "schema": "milepost", "pipeline": "p", "target_schema": "public", "view_name": "view",
    "processor": "p", "version": 1, "owner": "o", "lock_timeout": "1s", "parked_id": 7,
}  # fmt: skip
KEYS = (
    "select classid::bigint, objid::bigint, objsubid from pg_locks "
    "where locktype = 'advisory' and pid = pg_backend_pid()"
)


@pytest.fixture
def order() -> LogOrder:
    return "append"


def test_every_lock_is_known_to_the_doctor() -> None:
    files = [file for folder in ("functions", "queries") for file in (SQL / folder).rglob("*.sql")]
    assert {file.stem for file in files if LOCKING.search(file.read_text())} == set(TAKING)


def keys_of(url: str, name: str) -> list[tuple[int, int, int]]:
    """The keys that Milepost locks, as the server shows them."""
    with psycopg.connect(url) as own:
        if statement := TAKING[name][0]:
            own.execute(statement.encode())
        else:
            own.execute(sql.query(name), PARAMETERS)
        keys = own.execute(KEYS).fetchall()
        own.rollback()
        return keys


@contextmanager
def locked(url: str, key: tuple[int, int, int]) -> Iterator[Connection]:
    high, low, kind = key
    with psycopg.connect(url, autocommit=True, application_name="intruder") as own:
        if kind == 1:
            whole = (high << 32 | low) - (2**64 if high >= 2**31 else 0)
            own.execute("select pg_advisory_lock(%s)", [whole])
        else:
            signed = [half - 2**32 if half >= 2**31 else half for half in (high, low)]
            own.execute("select pg_advisory_lock(%s::integer, %s::integer)", signed)
        yield own


def advisory(mp: Milepost) -> Check:
    report = mp.examine(Limits(warn_seconds=0.0))
    return next(check for check in report.checks if check.name == "advisory")


@pytest.mark.parametrize("name", TAKING)
def test_the_doctor_names_a_stranger_with_a_lock_of_ours(
    mp: Milepost, roles: Roles, name: str
) -> None:
    for statement in PREPARE:
        roles.conn.execute(statement.encode())
    assert advisory(mp).state == "ok"
    keys, stranger = keys_of(roles.url, name), roles.make()
    assert keys
    for key in keys:
        with locked(stranger, key) as own:
            (problem,) = advisory(mp).problems
            assert re.search(f"has locked {TAKING[name][1]},", problem.what), problem
            assert f"pid {own.info.backend_pid} (role 'milepost_nobody_" in problem.what
            assert "application 'intruder'" in problem.what
            assert "its role has no use for it" in problem.what
            assert f"pg_terminate_backend({own.info.backend_pid})" in problem.remedy


def test_a_role_with_the_privilege_is_named_only_if_others_wait(
    mp: Milepost, roles: Roles, conn: Connection
) -> None:
    (key,) = keys_of(roles.url, "lock_key")
    with locked(roles.make("append"), key) as own:
        assert advisory(mp).state == "ok"
        waiting = Thread(target=take_in_vain, args=(conn,))
        waiting.start()
        wait_until(lambda: advisory(mp).state == "problem")
        (problem,) = advisory(mp).problems
        conn.cancel_safe()
        waiting.join()
        assert f"pid {own.info.backend_pid} " in problem.what
    assert problem.what.endswith(": others wait for it")


def take_in_vain(conn: Connection) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        conn.execute("select milepost.lock_key('k')")


def test_who_may_not_see_since_when_is_told_that_it_is_unknown(roles: Roles) -> None:
    (key,) = keys_of(roles.url, "lock_key")
    with locked(roles.make(), key) as own:
        check = advisory(Milepost(roles.make("metrics")))
        assert check.state == "unknown"
        assert f"pid {own.info.backend_pid} " in check.problems[0].what
