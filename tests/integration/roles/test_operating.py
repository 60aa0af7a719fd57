"""The commands of operators, and those that only look, each under a role that may do no more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from milepost import Job, Message, Milepost, RecordedMessage, Repeat, Retry
from milepost.db import Connection
from milepost.errors import HandlerFailed
from milepost.queue.schedules import Schedule, register
from tests.integration.cli.command import Cli, Result
from tests.roles import Roles, role_of

LOOKING = [
    ["status"],
    ["processors"],
    ["processors", "show", "cut"],
    ["processors", "segments", "cut"],
    ["pipelines"],
    ["channels"],
    ["schedules"],
    ["queue"],
]


@pytest.fixture
def busy(mp: Milepost, conn: Connection) -> None:
    """Something of everything: a processor that is stuck, one that parks, one with segments behind
    the end of the log; jobs, of which two are dead."""
    good = Message("Good", {}, key="good")
    mp.append(conn, good, Message("Bad", {}, key="bad"), Message("Bad", {}, key="bad"))

    def refuse_bad(messages: list[RecordedMessage], tx: Connection) -> None:
        if any(message.type == "Bad" for message in messages):
            raise ValueError("a bad one")

    stuck = mp.processor("stuck", retry=Retry(limit=0))(refuse_bad)
    with pytest.raises(HandlerFailed):
        stuck.run("caught_up")
    mp.processor("parking", retry=Retry(limit=0), on_failure="park")(refuse_bad).run("caught_up")
    mp.processor("cut", types=["Good"], segments=2)(refuse_bad).run("caught_up")
    mp.append(conn, good)
    register(conn, Schedule("nightly", Repeat(timedelta(days=1)), Job("reports")), mp.schema)
    mp.set_channel("limited", max_concurrency=2)
    mp.put(conn, *(Job("limited", "content", keep_for=timedelta(hours=1)) for _ in range(6)))
    conn.execute("select milepost.take(3, interval '1 hour', 'limited')")
    conn.execute("update milepost.jobs set max_attempts = 1")
    conn.execute(
        "select milepost.fail(array_agg(id), array_agg(attempt)) from milepost.jobs "
        "where status = 'running'"
    )


def done(cli: Cli, *words: str) -> Result:
    result = cli.run(*words)
    assert (result.code, result.stderr) == (0, ""), (words, result)
    return result


@pytest.mark.usefixtures("busy")
def test_metrics_sees_how_everything_is(roles: Roles) -> None:
    cli = Cli(roles.make("metrics"))
    for words in LOOKING:
        done(cli, *words)
        done(cli, *words, "--json")
    assert unknown_to(cli) == []
    found = done(cli, "status", "--json").document()
    assert [each["name"] for each in found["processors"]] == ["cut", "parking", "stuck"]
    assert (found["queue"]["dead"], found["log"]["messages"]) == (2, 4)


def unknown_to(cli: Cli) -> list[str]:
    """What the doctor may not look at, but who holds the horizon: that takes pg_read_all_stats."""
    result = cli.run("doctor", "--json")
    assert (result.code, result.stderr) == (1, ""), result  # "busy" has failures and dead jobs
    return [
        problem["what"]
        for check in result.document()["checks"]
        for problem in check["problems"]
        if problem["is_unknown"]
    ]


@pytest.mark.parametrize("order", ["append"])
def test_metrics_sees_that_a_sequence_is_behind_its_rows(roles: Roles, conn: Connection) -> None:
    """Who may not see the sequence would be told that all is well."""
    conn.execute(
        "insert into milepost.jobs (id, channel, content, status, taken, locked_until) "
        "values (1000000, 'c', '', 'running', 1000000, now() + interval '1 hour')"
    )
    result = Cli(roles.make("metrics")).run("doctor", "--json")
    assert result.code == 1, result
    assert {fault["kind"] for fault in result.document()["queue_faults"]} == {"ids", "taken"}


@pytest.mark.usefixtures("busy")
def test_an_operator_looks_reads_and_follows(roles: Roles) -> None:
    cli = Cli(roles.make("operate"))
    for words in [*LOOKING, ["dead-letters"], ["queue", "list"], ["queue", "dead"], ["read"]]:
        done(cli, *words)
    assert unknown_to(cli) == []
    (letter, _) = done(cli, "dead-letters", "list", "--json").document()
    assert done(cli, "dead-letters", "show", str(letter["id"])).document()["key"] == "bad"
    job = done(cli, "queue", "list", "--json").document()[0]
    assert "content" in done(cli, "queue", "show", str(job["id"])).stdout


@pytest.mark.usefixtures("busy")
def test_an_operator_pauses_skips_and_resets_processors(roles: Roles, conn: Connection) -> None:
    cli = Cli(roles.make("operate"))
    done(cli, "processors", "pause", "stuck")
    done(cli, "processors", "resume", "stuck")
    assert "skipped" in done(cli, "processors", "skip", "stuck").stdout
    done(cli, "processors", "reset", "stuck", "--to", "end", "--yes")
    done(cli, "processors", "reset", "stuck", "--to", "beginning", "--yes")
    done(cli, "processors", "reset", "parking", "--to", "beginning", "--yes")
    assert conn.execute("select count(*) from milepost.parked_keys").fetchone() == (0,)


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.usefixtures("busy")
def test_an_operator_splits_merges_and_resets_segments(roles: Roles) -> None:
    cli = Cli(roles.make("operate"))
    done(cli, "processors", "balance", "cut")
    done(cli, "processors", "split", "cut")
    done(cli, "processors", "merge", "cut")
    done(cli, "processors", "reset", "cut", "--to", "beginning", "--yes")
    done(cli, "processors", "merge", "cut")  # from one checkpoint each
    assert "skipped" in done(cli, "processors", "skip", "cut").stdout


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.usefixtures("busy")
def test_an_operator_retries_and_drops_dead_letters(roles: Roles) -> None:
    cli = Cli(roles.make("operate"))
    assert "2 dead letters" in done(cli, "dead-letters", "retry", "--key", "bad").stdout
    assert "dropped 2" in done(cli, "dead-letters", "drop", "--all", "--yes").stdout


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.usefixtures("busy")
def test_an_operator_looks_after_the_queue(roles: Roles, conn: Connection) -> None:
    cli = Cli(roles.make("operate"))
    done(cli, "channels", "pause", "limited")
    done(cli, "channels", "resume", "limited")
    done(cli, "channels", "set", "limited", "--max-concurrency", "1", "--release-seconds", "1")
    dead = [str(job["id"]) for job in done(cli, "queue", "dead", "--json").document()]
    done(cli, "queue", "retry", dead[0])
    done(cli, "queue", "drop", dead[1], "--yes")
    ready = [
        str(job["id"])
        for job in done(cli, "queue", "list", "--status", "ready", "--json").document()
    ]
    done(cli, "queue", "cancel", ready[0])
    assert "deleted" in done(cli, "queue", "purge", "limited", "--yes").stdout
    conn.execute("select milepost.put('limited', '1', clock_timestamp() - interval '1 hour')")
    conn.execute("update milepost.jobs set status = 'scheduled' where status = 'ready'")
    conn.execute("select setval('milepost.jobs_promote_at', 9999999999999)")
    assert cli.run("doctor").code == 1
    result = cli.run("doctor", "--repair", "--json")
    assert result.document()["queue_faults"] == [], result


@pytest.mark.parametrize("order", ["append"])
def test_an_operator_pauses_and_removes_schedules(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    """To run one now is to put a job, which is another activity."""
    register(conn, Schedule("hourly", Repeat(timedelta(hours=1)), Job("reports")), mp.schema)
    url = roles.make("operate")
    cli = Cli(url)
    done(cli, "schedules", "pause", "hourly")
    done(cli, "schedules", "resume", "hourly")
    refused = cli.run("schedules", "run", "hourly")
    assert (refused.code, "--to put --apply" in refused.stderr) == (1, True), refused
    mp.grant(role_of(url), "put")
    done(cli, "schedules", "run", "hourly")
    done(cli, "schedules", "remove", "hourly", "--yes")


@pytest.mark.parametrize("order", ["append"])
def test_an_operator_pauses_pipelines(roles: Roles, conn: Connection) -> None:
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, is_active) "
        "values ('revenue', 1, 1, 'a table', true)"
    )
    cli = Cli(roles.make("operate"))
    done(cli, "pipelines", "pause", "revenue")
    done(cli, "pipelines", "resume", "revenue")
