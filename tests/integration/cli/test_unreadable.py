"""What Python cannot decode is shown and skipped all the same."""

from __future__ import annotations

import json

import pytest

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli
from tests.undecodable import DIGITS, KINDS, NESTED, append_undecodable

APPLICATION = "tests.integration.cli.application:mp"
# Decoded without trouble, but not to be encoded again by orjson.
UNENCODABLE = {"surrogate": r'{"a": "\ud800"}', "nested": "[" * 400 + "]" * 400}


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.mark.parametrize("kind", KINDS)
def test_read_prints_it_as_it_was_written(
    cli: Cli, mp: Milepost, conn: Connection, kind: str
) -> None:
    mp.append(conn, Message("Before", 1))
    odd = append_undecodable(conn, kind, key="k")
    mp.append(conn, Message("After", 2))
    result = cli.run("read")
    assert (result.code, result.stderr) == (0, "")
    before, line, after = result.stdout.splitlines()
    assert (json.loads(before)["type"], json.loads(after)["type"]) == ("Before", "After")
    _, data, metadata, _ = KINDS[kind]
    assert f'"position":"{odd}"' in line
    assert f'"data":{data},"metadata":{metadata},' in line


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("BC", "0044-03-15T12:00:00.000000+00:00 BC"),
        ("far", "20000-01-01T00:00:00.000000+00:00"),
    ],
)
def test_read_prints_a_time_that_python_lacks(
    cli: Cli, conn: Connection, kind: str, written: str
) -> None:
    append_undecodable(conn, kind)
    (line,) = cli.run("read").lines()
    assert line["recorded_at"] == written


@pytest.mark.parametrize("written", UNENCODABLE.values(), ids=UNENCODABLE)
def test_read_prints_what_can_be_decoded_and_not_encoded_again(
    cli: Cli, conn: Connection, written: str
) -> None:
    conn.execute("select milepost.append('Odd', %s::json)", [written])
    result = cli.run("read")
    assert (result.code, result.stderr) == (0, "")
    (line,) = result.stdout.splitlines()
    assert f'"data":{written},' in line


def test_a_line_stays_one_line(cli: Cli, conn: Connection) -> None:
    conn.execute("select milepost.append('Odd', %s::json)", ['{"a":\r\n "\\ud800"\n}'])
    (line,) = cli.run("read").lines()
    assert line["data"] == {"a": "\ud800"}


def test_processors_stop_at_it_and_skip_shows_and_passes_it(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    odd = append_undecodable(conn, topic="orders")
    (after,) = mp.append(conn, Message("Placed", {}, topic="orders"))
    failed = cli.run("run", APPLICATION, "--only", "picky", "--until", "caught_up")
    assert failed.code == 1
    assert f"milepost processors skip picky --at {odd}" in failed.stderr
    skipped = cli.run("processors", "skip", "picky", "--at", str(odd))
    assert (skipped.code, skipped.stderr) == (0, "")
    assert f"skipped {odd} Odd" in skipped.stdout
    assert cli.run("run", APPLICATION, "--only", "picky", "--until", "caught_up").code == 0
    (status,) = cli.run("processors", "show", "picky", "--json").document()
    assert (status["position"], status["lag_messages"]) == (str(after), 0)


@pytest.mark.parametrize(
    "written", [DIGITS, NESTED, *UNENCODABLE.values()], ids=["digits", "deep", *UNENCODABLE]
)
def test_dead_letters_show_it_as_it_was_written(cli: Cli, conn: Connection, written: str) -> None:
    append_undecodable(conn, "infinity", topic="orders")
    assert cli.run("run", APPLICATION, "--only", "lenient", "--until", "caught_up").code == 0
    conn.execute("update milepost.dead_letters set data = %s::json", [written])
    for command in (
        ("list",),
        ("list", "--json"),
        ("show", "1"),
        ("retry", "1"),
        ("drop", "1", "--yes"),
    ):
        result = cli.run("dead-letters", *command)
        assert (result.code, result.stderr) == (0, ""), command
        if command == ("show", "1"):
            assert f'"data": {written},' in result.stdout
            assert '"recorded_at": "infinity"' in result.stdout


@pytest.mark.parametrize("kind", ["infinity", "-infinity", "BC"])
def test_listings_take_a_message_without_an_age(cli: Cli, conn: Connection, kind: str) -> None:
    """A processor is behind by such a message: it stops at it."""
    append_undecodable(conn, kind, topic="orders")
    cli.run("run", APPLICATION, "--only", "picky", "--until", "caught_up")
    for command in (("status",), ("processors",), ("processors", "--json"), ("doctor",)):
        assert cli.run(*command).stderr == "", command
    (status,) = cli.run("processors", "show", "picky", "--json").document()
    assert status["lag_messages"] == 1
