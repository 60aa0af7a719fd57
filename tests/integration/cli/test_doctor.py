from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner

from milepost import Job, Message, Milepost, RecordedMessage, Repeat, append, db, put
from milepost.cli.app import app_for
from milepost.db import Connection, one
from milepost.log import diagnose
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli
from tests.integration.queue.worker.working import working
from tests.roles import roles_in
from tests.server import TestServer
from tests.waiting import wait_until

APPEND = "insert into milepost.messages (type, data) values ('Held', '{}')"
# Held at all is a problem, however short: no test waits for ten seconds.
AT_ONCE = ("--warn-seconds", "0")
AREAS = (
    "server", "schema", "log", "horizon", "locks", "wake-up", "advisory", "processors", "claims",
    "pipelines", "queue", "schedules", "archive", "sequences", "disk",
)  # fmt: skip


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
    assert [line.split()[:2] for line in lines] == [["ok", area] for area in AREAS]
    assert f"{order} order" in lines[1]
    assert "3 messages, the newest" in lines[2]
    assert max(map(len, lines)) <= 80


def test_the_facts_come_as_json(cli: Cli, conn: Connection, order: LogOrder) -> None:
    positions = append(conn, *(Message("A", n) for n in range(3)))
    result = cli.run("doctor", "--json")
    facts = result.document()
    assert (result.code, facts["ok"], facts["problems"], facts["holders"]) == (0, True, [], [])
    assert [(check["name"], check["state"]) for check in facts["checks"]] == [
        (area, "ok") for area in AREAS
    ]
    assert all(check["detail"] and check["hint"] is None for check in facts["checks"])
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
    assert f"holds the horizon: pid {pid}, application sleepy shop" in result.stdout
    assert "idle in transaction for" in result.stdout
    assert "query: insert into milepost.messages" in result.stdout
    assert f"end it: select pg_terminate_backend({pid})" in result.stdout
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


def test_a_database_that_is_not_migrated_cannot_be_looked_at(empty_database: str) -> None:
    result = Cli(empty_database, {"MILEPOST_SCHEMA": "other"}).run("doctor")
    assert (result.code, result.stderr) == (2, "")
    assert "To do: milepost migrate --schema other" in result.stdout


@pytest.mark.parametrize("order", ["append"])
def test_a_database_newer_than_the_code_cannot_be_looked_at(cli: Cli, conn: Connection) -> None:
    conn.execute("insert into milepost.migrations (number, name) values (9999, 'later')")
    conn.execute("update milepost.log set oldest_code = 9999")
    result = cli.run("doctor")
    assert (result.code, result.stderr) == (2, "")
    assert "To do: pip install --upgrade milepost" in result.stdout


@pytest.mark.parametrize("order", ["append"])
def test_notifications_that_are_off_are_shown(cli: Cli, conn: Connection, url: str) -> None:
    name = psycopg.sql.Identifier(str(conninfo_to_dict(url)["dbname"]))
    conn.execute(psycopg.sql.SQL("alter database {} set milepost.notify = off").format(name))
    assert "notifications are off" in cli.run("doctor").stdout


@contextmanager
def role(conn: Connection, *grants: str) -> Iterator[str]:
    """A role that may do only what the grants say ({} is its name)."""
    name = f"lesser_{uuid4().hex[:8]}"
    conn.execute(f"create role {name} login".encode())
    try:
        for grant in grants:
            conn.execute(grant.format(name).encode())
        yield name
    finally:
        conn.execute(f"drop owned by {name}".encode())
        conn.execute(f"drop role {name}".encode())


READ = (
    "grant usage on schema milepost to {}",
    "grant select on all tables in schema milepost to {}",
)
READ_ALL = (*READ, "grant select on all sequences in schema milepost to {}")


@pytest.mark.parametrize("order", ["append"])
def test_a_sequence_that_the_role_may_not_see_is_unknown(
    cli: Cli, conn: Connection, url: str
) -> None:
    put(conn, Job("emails"))
    with role(conn, *READ) as name:
        result = cli.run("doctor", "--url", f"{url} user={name}")
        facts = cli.run("doctor", "--json", "--url", f"{url} user={name}").document()
    assert (result.code, result.stderr) == (1, "")
    assert f"grant pg_read_all_stats to {name}" in result.stdout
    assert states(facts) == {"sequences": "unknown"}
    assert f"To do: milepost grant {name} --to metrics" in result.stdout


def states(facts: dict[str, Any]) -> dict[str, str]:
    """Of the checks that are not ok."""
    return {c["name"]: c["state"] for c in facts["checks"] if c["state"] != "ok"}


def test_a_holder_whose_age_is_hidden_is_unknown(cli: Cli, conn: Connection, url: str) -> None:
    """Neither the state nor the age of another user's session is shown to a role without
    pg_read_all_stats; in transaction order not even that it has written."""
    with role(conn, *READ_ALL) as name, db.connect(url) as holder:
        user = ("--url", f"{url} user={name}")
        assert cli.run("doctor", *user).code == 0
        holder.execute("begin")
        holder.execute(APPEND)
        hidden = cli.run("doctor", "--json", *user)
        shown = cli.run("doctor", *user)
        conn.execute(f"grant pg_read_all_stats to {name}".encode())
        seen = cli.run("doctor", "--warn-seconds", "3600", *user)
        late = cli.run("doctor", *AT_ONCE, *user)
        holder.execute("rollback")
    assert (hidden.code, states(hidden.document())) == (1, {"horizon": "unknown"})
    assert f"To do: grant pg_read_all_stats to {name}" in shown.stdout
    assert "insufficient privilege" not in shown.stdout
    assert (seen.code, late.code) == (0, 1)


@pytest.mark.parametrize("order", ["append"])
def test_doctor_is_not_ok_while_a_session_level_lock_stops_readers(
    cli: Cli, conn: Connection, mp: Milepost, url: str
) -> None:
    lock = "select pg_advisory_lock(('milepost.messages'::regclass::bigint << 32) | 0)"
    with db.connect(url) as holder:
        holder.execute(lock.encode())
        before = cli.run("doctor", "--json")
        holder.execute("select pg_advisory_unlock_all()")
        append(conn, Message("A", 1))
        holder.execute(lock.encode())
        stopped = not list(mp.read())
        after = cli.run("doctor", "--json")
        pid = holder.info.backend_pid
    assert (after.code, stopped) in ((1, True), (0, False))
    if stopped:
        assert states(before.document()) == states(after.document()) == {"horizon": "problem"}
        assert [h["pid"] for h in after.document()["holders"]] == [pid]


@pytest.mark.parametrize("order", ["append"])
def test_failed_processors_are_a_problem(cli: Cli, conn: Connection) -> None:
    conn.execute(
        "insert into milepost.processors (name, version, state, last_error) select"
        " format('p%s', n), 1, 'failed', 'ValueError: a bad order' from generate_series(1, 14) n"
    )
    result = cli.run("doctor")
    assert result.code == 1
    assert "problem  processors 14 failed" in result.stdout
    assert "Processor 'p1' has failed: ValueError: a bad order.\nTo do: fix" in result.stdout
    ignored = [word for n in range(1, 15) for word in ("--ignore", f"p{n}")]
    assert cli.run("doctor", *ignored).code == 0


@dataclass(frozen=True, slots=True)
class Damage:
    """What somebody did, the area in which it is a problem, and options with which it is none."""

    area: str
    options: tuple[str, ...]
    statements: str


DAMAGE = {
    "lag": Damage(
        "processors",
        ("--lag-seconds", "7200"),
        """
        insert into milepost.processors (name, version, state) values ('slow', 1, 'running');
        insert into milepost.messages (type, data, recorded_at)
        values ('A', '1', now() - interval '1 hour')
        """,
    ),
    "silence": Damage(
        "processors",
        ("--silent-seconds", "7200"),
        """
        insert into milepost.processors (name, version, state, reported_at)
        values ('gone', 1, 'running', now() - interval '1 hour')
        """,
    ),
    "pipeline": Damage(
        "pipelines",
        ("--ignore", "daily"),
        """
        insert into milepost.pipelines (
          name, version, code_version, sink, is_active, built_at, state
        ) values ('daily', 1, 1, 'append t', true, now(), 'failed')
        """,
    ),
    "dead letters": Damage(
        "processors",
        ("--max-dead-letters", "1"),
        """
        insert into milepost.processors (name, version) values ('billing', 1);
        insert into milepost.dead_letters (
          processor, version, transaction_id, "position", message_id, topic, type, data, metadata,
          recorded_at, error, traceback, attempts
        ) values ('billing', 1, 0, 1, gen_random_uuid(), 't', 'T', '1', '{}', now(), 'e', 't', 1)
        """,
    ),
    "parked key": Damage(
        "processors",
        ("--max-parked-keys", "1"),
        """
        insert into milepost.processors (name, version) values ('billing', 1);
        insert into milepost.parked_keys (processor, version, digest, key)
        values ('billing', 1, '\\x00', 'order-1')
        """,
    ),
    "full disk": Damage(
        "disk",
        (),
        """
        create function public.generate_series(integer, integer) returns setof integer
        language plpgsql as $$ begin
          raise exception 'could not write to file: No space left on device'
            using errcode = 'disk_full';
        end $$;
        do $$ begin
          execute format(
            'alter database %I set search_path = public, pg_catalog', current_database()
          );
        end $$
        """,
    ),
    "claims": Damage(
        "claims",
        ("--ignore", "shared"),
        """
        insert into milepost.processors (name, version, segments) values ('shared', 1, 1);
        insert into milepost.segments (processor, version, id, mask) values ('shared', 1, 0, 0);
        insert into milepost.instances (processor, version, owner, alive_until)
        values ('shared', 1, 'me', now() + interval '1 hour')
        """,
    ),
    "dead": Damage(
        "queue",
        ("--max-dead-jobs", "1"),
        "insert into milepost.jobs (channel, content, status) values ('a', '1', 'dead')",
    ),
    "due": Damage(
        "queue",
        ("--due-seconds", "7200"),
        """
        insert into milepost.jobs (channel, content, run_at)
        values ('a', '1', now() - interval '1 hour')
        """,
    ),
    "schedule": Damage(
        "schedules",
        ("--schedule-seconds", "7200"),
        """
        insert into milepost.schedules (name, every, begun_at, next_at, channel, content)
        values ('cleanup', '1 day', now(), now() - interval '1 hour', 'chores', '1')
        """,
    ),
    "schedule that fails": Damage(
        "schedules",
        ("--schedule-seconds", "7200"),
        """
        insert into milepost.schedules (
          name, every, begun_at, next_at, channel, content, failures, retry_at, last_error
        ) values (
          'cleanup', '1 day', now(), now() - interval '1 hour', 'chores', '1', 9,
          now() + interval '1 minute', 'ChannelFull: the channel is full'
        )
        """,
    ),
    "sequence": Damage(
        "sequences",
        ("--sequence-percent", "99"),
        "select setval('milepost.messages_position_seq', 9000000000000000000)",
    ),
}


def inflict(conn: Connection, kind: str) -> None:
    conn.execute(DAMAGE[kind].statements.encode())


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_each_check_finds_its_damage_and_has_a_limit(cli: Cli, conn: Connection, kind: str) -> None:
    damage = DAMAGE[kind]
    quick = ("--claim-seconds", "0.1", "--json")
    assert cli.run("doctor", *quick).code == 0
    inflict(conn, kind)
    found = cli.run("doctor", *quick)
    assert (found.code, states(found.document())) == (1, {damage.area: "problem"}), found
    (problem,) = found.document()["problems"]
    assert problem["area"] == damage.area
    assert problem["remedy"]
    assert cli.run("doctor", *quick, *damage.options).code == (0 if damage.options else 1)


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("status", ["ready", "scheduled"])
def test_who_has_locked_due_jobs_is_named(
    cli: Cli, conn: Connection, url: str, status: str
) -> None:
    """And not only `run a worker`: workers would skip the jobs."""
    conn.execute(
        """insert into milepost.jobs (channel, content, run_at, status)
        values ('a', '1', now() - interval '2 hours', %s)""",
        (status,),
    )
    options = ("doctor", "--json", *AT_ONCE)
    with roles_in(url) as roles, db.connect(url, application_name="locker") as locker:
        watching = Cli(roles.make("metrics"))
        before = cli.run(*options).document()["problems"]
        assert any("run a worker" in problem["remedy"] for problem in before)
        locker.execute("begin")
        locker.execute("select from milepost.jobs for update")
        for doctor in (cli, watching):
            found = doctor.run(*options).document()["problems"]
            (named,) = [problem for problem in found if "locked by" in problem["what"]]
            pid = locker.info.backend_pid
            assert f"1 due job of a is locked by pid {pid}" in named["what"]
            assert named["remedy"] == f"end it: select pg_terminate_backend({pid})"
            assert not any("run a worker" in problem["remedy"] for problem in found)
        locker.execute("rollback")
        assert "locked by" not in cli.run(*options).stdout


@pytest.mark.parametrize("order", ["append"])
def test_what_works_as_it_should_is_ok(cli: Cli, mp: Milepost, conn: Connection, url: str) -> None:
    """Segments change hands between the instances meanwhile, as fast as the machine is."""
    patient = ("--claim-seconds", "60", "--warn-seconds", "60")

    def follow(messages: list[RecordedMessage], tx: Connection) -> None:
        pass

    mp.schedule("hourly", Repeat(every=timedelta(hours=1)), Job("chores"))
    others = [mp, Milepost(url), Milepost(url)]
    instances = [other.processor("shared", segments=4)(follow) for other in others]
    (scheduler,) = [member for member in mp.members() if member.name == "milepost.schedules"]
    append(conn, *(Message("A", n, key=str(n)) for n in range(20)))
    with working(instances[0], scheduler):
        wait_until(lambda: _claimed(conn) == 4)
        with working(*instances[1:]):
            found = cli.run("doctor", "--json", *patient)
        after = cli.run("doctor", "--json", *patient)
    assert (found.code, states(found.document())) == (0, {}), found
    assert (after.code, states(after.document())) == (0, {}), after
    assert "1 schedule, 0 overdue" in after.stdout


def _claimed(conn: Connection) -> int:
    query = "select count(*) from milepost.segments where owner is not null"
    return int(one(conn.execute(query).fetchone())[0])


@pytest.mark.parametrize("order", ["append"])
def test_the_disk_has_limits(cli: Cli, conn: Connection) -> None:
    append(conn, Message("A", 1))
    full = cli.run("doctor", "--json", "--max-disk-gb", "0")
    assert (full.code, states(full.document())) == (1, {"disk": "problem"})
    put(conn, *(Job("a") for _ in range(100)))
    conn.execute("delete from milepost.jobs")
    conn.execute("select pg_stat_force_next_flush()")  # else the server counts it in 10 seconds
    wait_until(lambda: cli.run("doctor", "--max-dead-rows", "0").code == 1)


def test_the_disk_is_tried_with_a_temporary_file(mp: Milepost, conn: Connection) -> None:
    def files() -> int:
        conn.execute("select pg_stat_force_next_flush()")
        query = "select temp_files from pg_stat_database where datname = current_database()"
        return int(one(conn.execute(query).fetchone())[0])

    before = files()
    mp.examine()
    wait_until(lambda: files() > before)


def test_who_blocks_is_listed_before_who_waits(cli: Cli, url: str) -> None:
    """A migration, or a careless LOCK TABLE: appenders queue behind it."""
    with db.connect(url, application_name="locker") as locker, db.connect(url) as appender:
        locker.execute("begin")
        locker.execute("lock table milepost.messages in share row exclusive mode")
        waiting = Thread(target=appender.execute, args=(APPEND,))
        waiting.start()
        wait_until(lambda: cli.run("doctor", "--json", *AT_ONCE).document()["waiting"])
        found = cli.run("doctor", "--json", *AT_ONCE)
        shown = cli.run("doctor", *AT_ONCE).stdout
        pids = (locker.info.backend_pid, appender.info.backend_pid)
        locker.execute("rollback")
        waiting.join()
    facts = found.document()
    assert (found.code, states(facts)["locks"]) == (1, "problem")
    assert [session["pid"] for session in facts["blocking"]] == [pids[0]]
    assert [(s["pid"], s["blocked_by"]) for s in facts["waiting"]] == [(pids[1], [pids[0]])]
    assert f"end it: select pg_terminate_backend({pids[0]})" in shown
    assert shown.index(f"blocks others: pid {pids[0]}") < shown.index(f"for pid {pids[0]}: pid")


@pytest.mark.parametrize("order", ["append"])
def test_a_locked_table_does_not_stop_the_doctor(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where it gives up its locks soon and nothing else: --look-seconds is a limit
    for every look, and a busy machine may need longer for any."""
    limits, limited = set[float](), diagnose.limited

    def noted(conn: Connection, seconds: float) -> AbstractContextManager[None]:
        limits.add(seconds)
        return limited(conn, seconds)

    monkeypatch.setattr(diagnose, "LOCK_SECONDS", 0.2)
    monkeypatch.setattr(diagnose, "limited", noted)
    words = ["doctor", "--json", "--url", url, "--look-seconds", "123"]
    with db.connect(url) as locker:
        locker.execute("begin")
        locker.execute("lock table milepost.jobs in access exclusive mode")
        found = CliRunner().invoke(app_for(words), words)
    facts = json.loads(found.stdout)
    assert found.exit_code == 1
    assert states(facts)["queue"] == "unknown"
    assert limits == {123.0}


@pytest.mark.parametrize("order", ["append"])
def test_a_table_that_may_not_be_read_is_unknown_and_the_rest_is_known(
    cli: Cli, conn: Connection, url: str
) -> None:
    conn.execute("insert into milepost.processors (name, version) values ('billing', 1)")
    # Without one, some versions of PostgreSQL do not look at the messages for a lag.
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, is_active)"
        " values ('revenue', 1, 1, '{}', true)"
    )
    conn.execute("insert into milepost.retention (keep, archive) values ('1 day', '/archive')")
    grants = (*READ_ALL, "revoke select on milepost.jobs, milepost.messages from {}")
    with role(conn, *grants) as name:
        found = cli.run("doctor", "--json", "--url", f"{url} user={name}")
    assert found.code == 1, found
    unknown = states(found.document())
    assert unknown == dict.fromkeys(
        ("log", "processors", "pipelines", "queue", "archive"), "unknown"
    )


@pytest.mark.parametrize("order", ["append"])
def test_where_nothing_can_be_looked_at_the_exit_code_is_2(
    cli: Cli, conn: Connection, url: str
) -> None:
    nowhere = Cli("postgresql://127.0.0.1:1/none")
    with role(conn) as name:
        for result in (
            nowhere.run("doctor"),
            nowhere.run("--debug", "doctor"),
            nowhere.run("doctor", "--repair"),
            cli.run("doctor", "--url", f"{url} user={name}"),
        ):
            assert (result.code, result.stdout) == (2, ""), result
            assert result.stderr
    document = nowhere.run("doctor", "--json").document()
    assert (document["ok"], document["checks"]) == (False, [])
    assert "127.0.0.1" in document["error"]


@pytest.mark.parametrize("order", ["append"])
def test_the_report_reads_well_on_a_terminal(cli: Cli, conn: Connection, url: str) -> None:
    inflict(conn, "dead")
    with db.connect(url, application_name="sleepy shop") as holder:
        holder.execute("begin")
        holder.execute(APPEND)
        result = cli.run_on_terminal("doctor", *AT_ONCE)
    assert result.code == 1
    lines = result.stdout.splitlines()
    # A command is never cut in two, however long.
    assert max(len(line) for line in lines if not line.startswith("To do: ")) <= 80
    assert sum(line.startswith("To do: ") for line in lines) == 2


@pytest.mark.parametrize("order", ["append"])
def test_a_long_log_is_estimated(cli: Cli, conn: Connection) -> None:
    conn.execute(
        "insert into milepost.messages (type, data) select 'A', '1' from generate_series(1, 12000)"
    )
    conn.execute("analyze milepost.messages")
    facts = cli.run("doctor", "--json").document()
    assert (facts["messages"], facts["messages_is_exact"]) == (12000, False)
    assert "about 12,000 messages" in cli.run("doctor").stdout
