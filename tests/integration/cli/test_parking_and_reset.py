"""Dead letters by key, and a reset with the application's reset handlers, from the command line."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import Message, Milepost
from milepost.db import Connection
from tests.integration.cli.command import Cli

APPLICATION = "tests.integration.cli.keyed_application:mp"
pytestmark = pytest.mark.parametrize("order", ["append"])


@pytest.fixture
def filled(mp: Milepost, conn: Connection) -> None:
    conn.execute("create table filled (n integer not null, replaying boolean not null)")
    keys = ["a", "bad", "b", "bad", "a"]
    mp.append(conn, *(Message("Done", {"n": n}, key=key) for n, key in enumerate(keys)))


def run(cli: Cli, name: str, **variables: str) -> None:
    arguments = ["run", APPLICATION, "--only", name, "--until", "caught_up"]
    result = Cli(cli.url, variables).run(*arguments)
    assert result.code == 0, result


def letters(cli: Cli, *arguments: str) -> list[dict[str, Any]]:
    return list(cli.run("dead-letters", "list", "--json", *arguments).document())


@pytest.mark.usefixtures("filled")
def test_a_parked_key_is_shown_and_retried_as_one(cli: Cli) -> None:
    run(cli, "parking")
    first, second = letters(cli)
    assert (first["key"], first["is_parked"], second["is_parked"]) == ("bad", True, True)
    assert "2 dead letters, 1 key parked" in cli.run("processors").stdout
    output = cli.run("dead-letters").stdout
    assert "bad (parked)" in output
    assert max(map(len, cli.run_on_terminal("dead-letters").stdout.splitlines())) <= 80
    assert letters(cli, "--key", "a") == []
    result = cli.run("dead-letters", "retry", "--key", "bad", "--processor", "parking")
    assert "2 dead letters" in result.stdout
    run(cli, "parking", MOOD="good")
    assert letters(cli) == []


@pytest.mark.usefixtures("filled")
def test_a_parked_key_is_dropped_as_one(cli: Cli, conn: Connection) -> None:
    run(cli, "parking")
    assert cli.run("dead-letters", "drop", "--key", "a").stdout == "dropped 0 dead letters\n"
    dropped = cli.run("dead-letters", "drop", "--key", "bad", "--yes")
    assert dropped.stdout == "dropped 2 dead letters\n"
    assert conn.execute("select count(*) from milepost.parked_keys").fetchone() == (0,)
    assert cli.run("dead-letters", "drop", "1", "--key", "bad").code == 2
    assert cli.run("dead-letters", "retry", "--key", "bad", "--all").code == 2


@pytest.mark.usefixtures("filled")
def test_a_reset_with_reset_handlers_needs_the_application_and_runs_them(
    cli: Cli, conn: Connection
) -> None:
    run(cli, "filling")
    refused = cli.run("processors", "reset", "filling", "--to", "beginning")
    assert (refused.code, "--app MODULE:NAME" in refused.stderr) == (1, True)
    assert conn.execute("select count(*) from filled").fetchone() == (5,)
    unknown = cli.run(
        "processors", "reset", "filling", "--to", "beginning", "--app",
        "tests.integration.cli.application:mp",
    )  # fmt: skip
    assert (unknown.code, "There is no processor 'filling'" in unknown.stderr) == (1, True)
    arguments = ("--to", "beginning", "--app", APPLICATION, "--yes")
    done = cli.run("processors", "reset", "filling", *arguments)
    assert "continues after 0:0" in done.stdout, done
    assert conn.execute("select count(*) from filled").fetchone() == (0,)
    assert "filling: replaying" in cli.run("processors").stdout
    run(cli, "filling")
    assert "replaying" not in cli.run("processors").stdout
    rows = conn.execute("select n, replaying from filled order by n").fetchall()
    assert rows == [(n, True) for n in range(5)]
