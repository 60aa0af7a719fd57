from __future__ import annotations

import signal
from typing import Any

import pytest

from milepost import Job, Milepost
from milepost.db import Connection
from milepost.queue import Taker
from tests.integration.cli.command import Cli

APPLICATION = "tests.integration.cli.application"
pytestmark = pytest.mark.parametrize("order", ["append"])


def jobs(cli: Cli, *arguments: str) -> list[dict[str, Any]]:
    return list(cli.run("queue", "list", "--json", *arguments).document())


def channel(cli: Cli, name: str) -> dict[str, Any]:
    (found,) = [c for c in cli.run("channels", "--json").document() if c["name"] == name]
    return dict(found)


def test_what_is_put_is_listed_shown_and_counted(cli: Cli) -> None:
    id_ = cli.run("queue", "put", "emails", '{"to": "ann"}', "--priority", "-1").stdout.strip()
    later = cli.run("queue", "put", "emails", "--delay-seconds", "3600", "--json").document()["id"]
    first, second = jobs(cli)
    assert (first["id"], first["content"], first["status"]) == (int(id_), {"to": "ann"}, "ready")
    assert (second["id"], second["content"], second["status"]) == (later, None, "scheduled")
    assert cli.run("queue", "show", id_, "--json").document() == first
    assert '"ann"' in cli.run("queue", "show", id_).stdout.replace("'", '"')
    assert "emails" in cli.run("queue", "list", "--channel", "emails").stdout
    assert jobs(cli, "--status", "running") == []
    summary = cli.run("queue", "--json").document()
    assert (summary["ready"], summary["scheduled"], summary["channels"]) == (1, 1, 1)
    assert summary["oldest_due_seconds"] > 0
    assert "1 ready, 1 scheduled" in cli.run("queue").stdout
    assert cli.run("status", "--json").document()["queue"]["ready"] == 1
    assert "1 ready" in cli.run("status").stdout
    missing = cli.run("queue", "show", "999")
    assert (missing.code, "no job 999" in missing.stderr) == (1, True)


def test_a_unique_key_answers_with_the_first_id_and_bad_json_is_refused(cli: Cli) -> None:
    put = ("queue", "put", "emails", "1", "--unique-key", "k")
    assert cli.run(*put).stdout == cli.run(*put).stdout
    refused = cli.run("queue", "put", "emails", "{")
    assert (refused.code, "JSON" in refused.stderr) == (2, True)


def test_jobs_that_wait_for_others_are_put_listed_and_shown(cli: Cli) -> None:
    first = cli.run("queue", "put", "emails").stdout.strip()
    later = ("queue", "put", "reports", "--after", first, "--on-dead", "cancel")
    id_ = cli.run(*later).stdout.strip()
    (waiting,) = jobs(cli, "--status", "waiting")
    assert (waiting["id"], waiting["after"]) == (int(id_), [int(first)])
    assert f"after {first}" in cli.run("queue", "list").stdout
    assert f"[{first}]" in cli.run("queue", "show", id_).stdout
    assert "1 for other jobs" in cli.run("queue").stdout
    assert channel(cli, "reports")["waiting"] == 1
    unknown = cli.run("queue", "put", "reports", "--after", "999")
    assert (unknown.code, "never been a job 999" in unknown.stderr) == (1, True)
    purged = cli.run("queue", "purge", "emails", "--yes")
    assert "1 job" in purged.stdout
    assert cli.run("doctor", "--repair").code == 0
    assert jobs(cli) == []


def test_the_upkeep_of_channels_is_set_and_listed(cli: Cli) -> None:
    said = cli.run("channels", "upkeep", "mail.*", "--keep-dead-days", "30").stdout
    assert said == "mail.*: dead jobs are kept for 30 days, priorities age never\n"
    assert channel(cli, "mail.*")["keep_dead_seconds"] == 30 * 86400
    said = cli.run("channels", "upkeep", "mail.*", "--ageing-seconds", "60").stdout
    assert said == "mail.*: dead jobs are kept for ever, priorities age every 60 s\n"
    refused = cli.run("channels", "upkeep", "ma*il")
    assert (refused.code, "star" in refused.stderr) == (1, True)


def test_a_job_with_a_key_is_replaced(cli: Cli) -> None:
    put = ("queue", "put", "emails", "--unique-key", "k", "--unique-seconds", "60")
    id_ = cli.run(*put, "1").stdout
    assert cli.run(*put, "2", "--replace").stdout == id_
    (job,) = jobs(cli)
    assert job["content"] == 2


def test_run_works_on_jobs_and_dead_ones_are_retried_and_dropped(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    mp.put(conn, *(Job("chores", n) for n in (1, 2)), Job("chores", "bad"), Job("chores", "bad"))
    result = cli.run("run", f"{APPLICATION}:mp", "--only", "chores", "--until", "drained")
    assert result.code == 0, result
    first, second = cli.run("queue", "dead", "--json").document()
    assert first["last_error"] == "ValueError: a bad chore"
    assert "a bad chore" in cli.run("queue", "dead").stdout
    assert cli.run("queue", "retry", str(first["id"])).code == 0
    assert [job["id"] for job in jobs(cli, "--status", "ready")] == [first["id"]]
    again = cli.run("queue", "retry", str(first["id"]))
    assert again.code == 1
    assert cli.run("queue", "drop", "--all", "--yes", "--json").document() == [
        {"id": second["id"], "verdict": "done"}
    ]
    assert len(jobs(cli)) == 1
    assert cli.run("queue", "retry").code == 2


def test_a_dead_job_whose_key_another_one_has_is_not_retried_and_says_so(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    ids = []
    for key in ("k", "free"):
        ids += mp.put(conn, Job("emails", unique_key=key))
        conn.execute("select milepost.fail(array_agg(id), array_agg(attempt), finals => '{true}') "
                     "from milepost.take(1)")  # fmt: skip
    (heir,) = mp.put(conn, Job("emails", unique_key="k"))
    refused = cli.run("queue", "retry", *map(str, ids))
    assert refused.code == 1
    assert f"{ids[0]} is still dead: job {heir} has its unique key 'k'" in refused.stdout
    assert f"{ids[1]} ready again" in refused.stdout
    (document,) = cli.run("queue", "retry", str(ids[0]), "--json").document()
    assert (document["verdict"], f"job {heir} has" in document["reason"]) == ("stale", True)


def test_waiting_jobs_are_cancelled_and_purged(cli: Cli, mp: Milepost, conn: Connection) -> None:
    ids = mp.put(conn, *(Job("emails", n) for n in range(3)), Job("other"))
    cancelled = cli.run("queue", "cancel", str(ids[0]), "999")
    assert (cancelled.code, "cancelled" in cancelled.stdout) == (1, True)
    assert cli.run("queue", "purge", "emails", "--yes", "--json").document() == {"deleted": 2}
    assert [job["channel"] for job in jobs(cli)] == ["other"]


def test_the_limits_of_a_channel_are_set_paused_and_resumed(cli: Cli) -> None:
    limits = ("--max-concurrency", "3", "--release-seconds", "0.5", "--max-size", "10")
    assert "3 concurrently" in cli.run("channels", "set", "emails", *limits).stdout
    found = channel(cli, "emails")
    assert (found["max_concurrency"], found["release_seconds"], found["max_size"]) == (3, 0.5, 10)
    assert cli.run("channels", "pause", "emails").code == 0
    assert channel(cli, "emails")["is_paused"]
    cli.run("channels", "set", "emails", "--max-concurrency", "4")
    found = channel(cli, "emails")
    assert (found["max_concurrency"], found["max_size"], found["is_paused"]) == (4, None, True)
    assert "paused, 4 concurrently" in cli.run("channels").stdout
    assert cli.run("channels", "resume", "emails").code == 0
    assert not channel(cli, "emails")["is_paused"]


def test_a_channel_of_which_nothing_is_known_is_not_paused(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    mp.put(conn, Job("tenant.a"))
    for command in ("pause", "resume"):
        for typo in ("emials", "tenent.*", "tenant", "tenant.b*"):
            refused = cli.run("channels", command, typo)
            assert refused.code == 1, typo
    refused = cli.run("channels", "pause", "my mails")
    assert "There is no channel 'my mails'" in refused.stderr
    assert "milepost channels set 'my mails'" in refused.stderr
    assert conn.execute("select from milepost.channels").fetchall() == []
    assert cli.run("channels", "set", "my mails").code == 0
    for known in ("my mails", "tenant.*", "tenant.a", "*"):
        assert cli.run("channels", "pause", known).code == 0, known


def test_the_limits_of_a_family_are_set_shown_and_removed(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    mp.put(conn, Job("tenant.a"), Job("tenant.b"))
    limits = (
        "--max-concurrency-total",
        "9",
        "--rate",
        "100",
        "--per-seconds",
        "60",
        "--burst",
        "5",
    )
    done = cli.run("channels", "set", "tenant.*", *limits)
    assert done.stdout.strip() == "tenant.*: 9 in all its channels, 100 in 60 s, burst 5"
    found = channel(cli, "tenant.a")
    assert (found["family"], found["rate_count"], found["rate_burst"]) == ("tenant.*", 100, 5)
    assert (found["max_concurrency_total"], found["rate_seconds"]) == (9, 60.0)
    assert "tenant.*: 9 in all its channels, 100 in 60 s, burst 5" in cli.run("channels").stdout
    assert cli.run("channels", "pause", "tenant.*").code == 0
    assert channel(cli, "tenant.b")["is_paused"]
    assert "removed" in cli.run("channels", "unset", "tenant.*").stdout
    assert "had no policy" in cli.run("channels", "unset", "tenant.*").stdout
    assert channel(cli, "tenant.a")["family"] is None


def test_a_limit_that_cannot_be_set_is_refused_in_one_line(cli: Cli) -> None:
    refused = cli.run("channels", "set", "tenant", "--max-concurrency-total", "9")
    assert refused.code == 1
    assert "max_concurrency_total is for families" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_full_channel_refuses_a_put_in_one_line(cli: Cli) -> None:
    cli.run("channels", "set", "emails", "--max-size", "1")
    assert cli.run("queue", "put", "emails").code == 0
    refused = cli.run("queue", "put", "emails")
    assert (refused.code, "channel emails is full" in refused.stderr) == (1, True)


def test_a_worker_ends_what_it_is_at_when_it_is_told_to(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    mp.put(conn, Job("chores", "slow"))
    process = cli.start("run", f"{APPLICATION}:mp", "--only", "chores")
    assert process.stdout is not None
    # That it is taken would not be enough: what is not begun is given back.
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert conn.execute("select count(*) from milepost.jobs").fetchone() == (0,)


def test_doctor_finds_what_nobody_looks_after_and_mends_it(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    mp.put(conn, Job("emails"))
    Taker("emails").take(conn, 1)
    conn.execute("update milepost.jobs set locked_until = clock_timestamp() - interval '5 minutes'")
    found = cli.run("doctor", "--json")
    assert found.code == 1
    assert [fault["kind"] for fault in found.document()["queue_faults"]] == ["expired"]
    shown = cli.run("doctor")
    assert "To do: milepost doctor --repair" in shown.stdout
    assert cli.run("doctor", "--repair").code == 0
    assert [job["status"] for job in jobs(cli)] == ["ready"]
