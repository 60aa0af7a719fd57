from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from milepost import Cron, Job, Milepost, Repeat
from milepost.db import Connection
from milepost.queue.schedules import Schedule, register
from tests.integration.cli.command import Cli

pytestmark = pytest.mark.parametrize("order", ["append"])


@pytest.fixture
def schedules(mp: Milepost, conn: Connection) -> None:
    hourly = Schedule("hourly", Repeat(timedelta(hours=1)), Job("reports", {"a": "secret"}))
    register(conn, hourly, mp.schema, "host:1")
    daily = Schedule("daily", Cron("0 3 * * *", "Europe/Berlin"), Job("invoices"))
    register(conn, daily, mp.schema, "host:1")


def lines(cli: Cli) -> list[str]:
    return [line.rstrip() for line in cli.run("schedules").stdout.splitlines()]


def test_without_schedules_it_says_so(cli: Cli) -> None:
    assert cli.run("schedules").stdout == "no schedule is registered\n"
    assert cli.run("schedules", "--json").document() == []


@pytest.mark.usefixtures("schedules")
def test_schedules_are_listed_with_their_next_ticks(cli: Cli) -> None:
    listed = lines(cli)
    assert [line.split()[0] for line in listed] == ["schedule", "daily", "hourly"]
    assert "0 3 * * * Europe/Berlin" in listed[1]
    assert listed[2].endswith("ok")
    assert "secret" not in "".join(listed)
    daily, hourly = cli.run("schedules", "list", "--json").document()
    ticks = [datetime.fromisoformat(tick) for tick in hourly["next_ticks"]]
    assert [ticks[1] - ticks[0], ticks[2] - ticks[1]] == [timedelta(hours=1)] * 2
    assert (hourly["every_seconds"], daily["cron"], daily["is_orphaned"]) == (
        3600, "0 3 * * *", False,
    )  # fmt: skip


@pytest.mark.usefixtures("schedules")
def test_what_is_wrong_is_shown(cli: Cli, conn: Connection) -> None:
    conn.execute(
        "update milepost.schedules set failures = 3, last_error = 'ChannelFull: it is full', "
        "next_at = next_at - interval '2 hours' where name = 'hourly'"
    )
    conn.execute("update milepost.schedules set last_seen_at = null where name = 'daily'")
    listed = lines(cli)
    assert listed[1].endswith("orphaned")
    assert "failing, overdue by" in listed[2]
    assert listed[3] == "hourly failed 3 times in a row: ChannelFull: it is full"


@pytest.mark.usefixtures("schedules")
def test_a_schedule_is_paused_resumed_and_run(cli: Cli) -> None:
    assert cli.run("schedules", "pause", "hourly").stdout == "hourly: paused\n"
    assert lines(cli)[2].endswith("paused")
    assert cli.run("schedules", "resume", "hourly").stdout.startswith("hourly: resumed, next tick")
    id_ = cli.run("schedules", "run", "hourly", "--json").document()["id"]
    (job,) = cli.run("queue", "list", "--json").document()
    assert (job["id"], job["channel"], job["content"]) == (id_, "reports", {"a": "secret"})


@pytest.mark.usefixtures("schedules")
def test_removing_asks_first(cli: Cli) -> None:
    refused = cli.run("schedules", "remove", "hourly")
    assert refused.code == 1
    assert "host:1 has in its code and adds again when it starts" in refused.stderr
    assert "--yes" in refused.stderr
    assert cli.run("schedules", "remove", "hourly", "--yes").stdout == "hourly: removed\n"
    assert [each["name"] for each in cli.run("schedules", "--json").document()] == ["daily"]


@pytest.mark.usefixtures("schedules")
@pytest.mark.parametrize("command", ["pause", "resume", "run", "remove"])
def test_an_unknown_schedule_is_an_error(cli: Cli, command: str) -> None:
    result = cli.run("schedules", command, "weekly")
    assert result.code == 1
    assert "There is no schedule 'weekly'. There are: daily, hourly." in result.stderr
