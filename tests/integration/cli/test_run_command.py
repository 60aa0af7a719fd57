"""What `milepost run` says: nothing before it is known to be possible; lines of JSON if asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from milepost import Job, Message, Milepost
from milepost.db import Connection
from tests.integration.cli.command import Cli, Result

APPLICATION = "tests.integration.cli.application:mp"
IN_ONE_ORDER = pytest.mark.parametrize("order", ["append"])
JSON = ("--log-format", "json")


def run(cli: Cli, name: str, *options: str) -> Result:
    return cli.run("run", APPLICATION, "--only", name, "--until", "drained", *options)


def lines(result: Result) -> list[dict[str, Any]]:
    """Each of them an object, with what every line has."""
    found = [json.loads(line) for line in result.stderr.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in found)
    return found


@IN_ONE_ORDER
def test_an_unknown_name_is_not_announced(cli: Cli) -> None:
    result = run(cli, "zzz")
    assert (result.code, "running" in result.stderr) == (1, False)
    assert "There are: chores, lenient, picky" in result.stderr


@pytest.mark.parametrize("command", [("run", APPLICATION), ("rebase",), ("append",)])
def test_nothing_is_announced_where_there_is_no_schema(
    empty_database: str, command: tuple[str, ...]
) -> None:
    result = Cli(empty_database).run(*command)
    assert result.code == 1
    assert result.stderr.startswith("error: The schema 'milepost' does not exist")
    shown = Cli(empty_database).run_on_terminal(*command).stdout
    assert shown.startswith("error: The schema 'milepost' does not exist")


@IN_ONE_ORDER
def test_a_failed_job_and_a_dead_one_are_lines_of_the_log(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    (id_,) = mp.put(conn, Job("chores", "bad"))
    result = run(cli, "chores")
    (line,) = [line for line in result.stderr.splitlines() if " ERROR " in line]
    text = f"job={id_} channel=chores attempt=1 failures=1 dead: ValueError: a bad chore"
    assert line.endswith(f"ERROR milepost.queue {text}")


@IN_ONE_ORDER
def test_each_line_is_an_object_with_the_named_values_as_fields(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    (id_,) = mp.put(conn, Job("chores", "bad"))
    first, *found = lines(run(cli, "chores", *JSON))
    assert (first["level"], first["message"]) == ("INFO", "running chores")
    (dead,) = [line for line in found if line["level"] == "ERROR"]
    assert (dead["job"], dead["channel"], dead["attempt"]) == (id_, "chores", 1)


@IN_ONE_ORDER
def test_what_ends_the_command_is_an_object_too(cli: Cli, mp: Milepost, conn: Connection) -> None:
    mp.append(conn, Message("OrderPlaced", {"is_bad": True}, topic="orders"))
    result = run(cli, "picky", *JSON)
    assert (result.code, result.stdout) == (1, "")
    last = lines(result)[-1]
    assert (last["level"], "ValueError: a bad order" in last["message"]) == ("ERROR", True)
    unknown = run(cli, "zzz", *JSON)
    assert (unknown.code, len(lines(unknown))) == (1, 1)
    variable = Cli(cli.url, {"MILEPOST_LOG_FORMAT": "json"})
    assert len(lines(run(variable, "zzz"))) == 1


@IN_ONE_ORDER
def test_an_error_of_the_program_is_one_object_with_its_traceback(cli: Cli) -> None:
    result = cli.run("run", "tests.integration.cli.broken_application:mp", *JSON)
    assert result.code == 1
    (line,) = lines(result)
    assert "ZeroDivisionError" in line["exception"]
