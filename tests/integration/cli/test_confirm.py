"""What deletes or rewinds is asked for on a terminal, and refused where nobody can be asked."""

from __future__ import annotations

import pytest

from milepost import Cron, Job, Message, Milepost
from milepost.db import Connection
from milepost.queue.schedules import Schedule, register
from tests.integration.cli.command import Cli

APPLICATION = "tests.integration.cli.application"
pytestmark = pytest.mark.parametrize("order", ["append"])

COMMANDS = {
    "dead-letters drop": ("dead-letters", "drop", "--all"),
    "queue drop": ("queue", "drop", "--all"),
    "queue purge": ("queue", "purge", "chores"),
    "schedules remove": ("schedules", "remove", "nightly"),
    "pipelines drop": ("pipelines", "drop", "daily", "--version", "1"),
    "processors reset": ("processors", "reset", "lenient", "--to", "beginning"),
}
COUNTED = """
select
  (select count(*) from milepost.dead_letters), (select count(*) from milepost.jobs),
  (select count(*) from milepost.pipelines), (select count(*) from milepost.schedules),
  (select count(*) from milepost.checkpoints where position > 0)
"""


@pytest.fixture
def full(cli: Cli, mp: Milepost, conn: Connection) -> None:
    """A dead letter, a dead job and one that waits, a kept version, a schedule, a checkpoint."""
    mp.append(conn, Message("OrderPlaced", {"is_bad": True}, topic="orders"))
    ran = cli.run("run", f"{APPLICATION}:mp", "--only", "lenient", "--until", "caught_up")
    assert ran.code == 0, ran
    mp.put(conn, Job("chores"), Job("chores"))
    conn.execute("update milepost.jobs set status = 'dead' where id = 1")
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, built_at)"
        " values ('daily', 1, 1, 'append t', now())"
    )
    register(conn, Schedule("nightly", Cron("@daily"), Job("chores")), mp.schema)
    assert conn.execute(COUNTED).fetchone() == (1, 2, 1, 1, 1)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_terminal_only_yes_is_an_answer(cli: Cli, conn: Connection, name: str) -> None:
    before = conn.execute(COUNTED).fetchone()
    refused = cli.run(*COMMANDS[name], stdin="y\n")
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: This would ")
    assert refused.stderr.endswith("add --yes.\n")
    assert conn.execute(COUNTED).fetchone() == before
    assert cli.run(*COMMANDS[name], "--yes").code == 0
    assert conn.execute(COUNTED).fetchone() != before


@pytest.mark.usefixtures("full")
def test_on_a_terminal_it_is_asked_and_no_is_the_answer_of_silence(
    cli: Cli, conn: Connection
) -> None:
    before = conn.execute(COUNTED).fetchone()
    for answer in ("n\n", "\n"):
        declined = cli.run_on_terminal("dead-letters", "drop", "--all", answer=answer)
        assert declined.code == 1
        assert "This will drop 1 dead letter for good. Continue? [y/N]" in declined.stdout
        assert "nothing was changed" in declined.stdout
    assert conn.execute(COUNTED).fetchone() == before
    agreed = cli.run_on_terminal("dead-letters", "drop", "--all", answer="y\n")
    assert (agreed.code, "dropped 1 dead letter" in agreed.stdout) == (0, True)


@pytest.mark.usefixtures("full")
def test_what_cannot_be_done_is_refused_before_it_is_asked(cli: Cli, conn: Connection) -> None:
    conn.execute("update milepost.pipelines set is_active = true")
    active = cli.run("pipelines", "drop", "daily", "--version", "1")
    assert (active.code, "is the active one" in active.stderr) == (1, True)
    unknown = cli.run("processors", "reset", "nobody", "--to", "end")
    assert (unknown.code, "There is no processor 'nobody'" in unknown.stderr) == (1, True)
