from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from milepost import Job, Message, Milepost, append, db, put
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli
from tests.server import TestServer

APPEND = "insert into milepost.messages (type, data) values ('Held', '{}')"
# Held at all is a problem, however short: no test waits for ten seconds.
AT_ONCE = ("--warn-seconds", "0")


@contextmanager
def prepared(url: str, statement: str) -> Iterator[str]:
    """A transaction that is prepared and left alone."""
    gid = f"held_{uuid4().hex}"
    with db.connect(url) as conn:
        # PREPARE TRANSACTION refuses a transaction that has sent a NOTIFY.
        for step in ("set milepost.notify = off", "begin", statement):
            conn.execute(step.encode())
        conn.execute(f"prepare transaction '{gid}'".encode())
        try:
            yield gid
        finally:
            conn.execute(f"rollback prepared '{gid}'".encode())


def restore_elsewhere(conn: Connection, order: LogOrder) -> None:
    """What a log looks like that came here without what orders it."""
    append(conn, *(Message("Old", n) for n in range(3)))
    if order == "append":
        conn.execute("select setval('milepost.messages_position_seq', 1)")
    else:
        conn.execute("update milepost.log set system_identifier = system_identifier + 1")


def test_a_healthy_log_is_ok(cli: Cli, conn: Connection, order: LogOrder) -> None:
    append(conn, *(Message("A", n) for n in range(3)))
    result = cli.run("doctor")
    assert (result.code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["ok", area] for area in ("server", "schema", "log", "horizon", "wake-up", "queue")
    ]
    assert f"{order} order" in lines[1]
    assert "3 messages, the newest" in lines[2]
    assert max(map(len, lines)) <= 80


def test_the_facts_come_as_json(cli: Cli, conn: Connection, order: LogOrder) -> None:
    positions = append(conn, *(Message("A", n) for n in range(3)))
    result = cli.run("doctor", "--json")
    facts = result.document()
    assert (result.code, facts["ok"], facts["problems"], facts["holders"]) == (0, True, [], [])
    assert facts["order"] == order
    assert (facts["messages"], facts["messages_is_exact"]) == (3, True)
    assert facts["newest"] == str(positions[-1])
    assert facts["migration"] == facts["needed_migration"]
    assert facts["server"]["version"].startswith(str(conn.info.server_version // 10000))
    assert facts["server"]["is_notifying"] is True
    assert facts["is_held"] is False


def test_an_idle_appender_is_named_with_the_command_that_ends_it(cli: Cli, url: str) -> None:
    with db.connect(url, application_name="sleepy shop") as holder:
        holder.execute("begin")
        holder.execute(APPEND)
        result = cli.run("doctor", *AT_ONCE)
        facts = cli.run("doctor", "--json", *AT_ONCE).document()
        patient = cli.run("doctor", "--warn-seconds", "3600")
        pid = holder.info.backend_pid
        holder.execute("rollback")
    assert result.code == 1
    assert f"pid {pid}, application sleepy shop" in result.stdout
    assert "idle in transaction for" in result.stdout
    assert "query: insert into milepost.messages" in result.stdout
    assert f"end it: select pg_terminate_backend({pid})" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert [problem["area"] for problem in facts["problems"]] == ["horizon"]
    assert [h["pid"] for h in facts["holders"]] == [pid]
    assert facts["held_seconds"] > 0
    assert (patient.code, f"pid {pid}" in patient.stdout) == (0, True)


def test_a_prepared_transaction_is_named_with_the_command_that_ends_it(cli: Cli, url: str) -> None:
    with prepared(url, APPEND) as gid:
        result = cli.run("doctor", *AT_ONCE)
    assert result.code == 1
    assert f"prepared '{gid}'" in result.stdout
    assert f"end it: rollback prepared '{gid}'" in result.stdout
    assert cli.run("doctor", *AT_ONCE).code == 0


@pytest.mark.parametrize("order", ["transaction"])
def test_a_transaction_prepared_elsewhere_says_where_to_end_it(
    cli: Cli, server: TestServer, empty_database: str
) -> None:
    with prepared(empty_database, "create table things (n integer)") as gid:
        result = cli.run("doctor", *AT_ONCE)
    name = conninfo_to_dict(empty_database)["dbname"]
    assert result.code == 1
    assert f"end it, in database {name}: rollback prepared '{gid}'" in result.stdout


def test_a_restored_log_is_a_problem_that_rebase_repairs(
    cli: Cli, conn: Connection, mp: Milepost, order: LogOrder
) -> None:
    restore_elsewhere(conn, order)
    before = cli.run("doctor")
    assert (before.code, before.stderr) == (1, "")
    assert "To do: milepost rebase\n" in before.stdout
    refused = cli.run("read")
    assert (refused.code, refused.stdout) == (1, "")
    assert "Run: milepost rebase" in refused.stderr
    for _ in range(2):
        rebased = cli.run("rebase")
        assert (rebased.code, rebased.stdout.startswith("done: ")) == (0, True)
        assert rebased.stderr.startswith("rebasing the log in schema 'milepost'")
    assert cli.run("doctor").code == 0
    append(conn, Message("New", 3))
    assert [m.data for m in mp.read()] == [0, 1, 2, 3]


def test_a_database_that_is_not_migrated_is_a_problem(empty_database: str) -> None:
    result = Cli(empty_database, {"MILEPOST_SCHEMA": "other"}).run("doctor")
    assert (result.code, result.stderr) == (1, "")
    assert "To do: milepost migrate --schema other" in result.stdout


@pytest.mark.parametrize("order", ["append"])
def test_a_database_newer_than_the_code_is_a_problem(cli: Cli, conn: Connection) -> None:
    conn.execute("insert into milepost.applied_migrations (number, name) values (9999, 'later')")
    conn.execute("update milepost.log set oldest_code = 9999")
    result = cli.run("doctor")
    assert (result.code, result.stderr) == (1, "")
    assert "To do: pip install --upgrade milepost" in result.stdout


@pytest.mark.parametrize("order", ["append"])
def test_notifications_that_are_off_are_shown(cli: Cli, conn: Connection, url: str) -> None:
    name = psycopg.sql.Identifier(str(conninfo_to_dict(url)["dbname"]))
    conn.execute(psycopg.sql.SQL("alter database {} set milepost.notify = off").format(name))
    assert "notifications are off" in cli.run("doctor").stdout


@pytest.mark.parametrize("order", ["append"])
def test_a_role_that_does_not_see_all_sessions_is_told_so(
    cli: Cli, conn: Connection, url: str
) -> None:
    put(conn, Job("emails"))  # whose sequence the role may not see either
    role = f"lesser_{uuid4().hex[:8]}"
    conn.execute(f"create role {role} login".encode())
    try:
        conn.execute(f"grant usage on schema milepost to {role}".encode())
        conn.execute(f"grant select on all tables in schema milepost to {role}".encode())
        result = cli.run("doctor", "--url", f"{url} user={role}")
    finally:
        conn.execute(f"drop owned by {role}".encode())
        conn.execute(f"drop role {role}".encode())
    assert (result.code, f"grant pg_read_all_stats to {role}" in result.stdout) == (0, True)


@pytest.mark.parametrize("order", ["append"])
def test_a_long_log_is_estimated(cli: Cli, conn: Connection) -> None:
    conn.execute(
        "insert into milepost.messages (type, data) select 'A', '1' from generate_series(1, 12000)"
    )
    conn.execute("analyze milepost.messages")
    facts = cli.run("doctor", "--json").document()
    assert (facts["messages"], facts["messages_is_exact"]) == (12000, False)
    assert "about 12,000 messages" in cli.run("doctor").stdout
