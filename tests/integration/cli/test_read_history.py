"""`milepost read`, and what operators do with processors, where part of the log is archived."""

from __future__ import annotations

import json
import subprocess

import pytest

from milepost import Message, Milepost, Position, append
from milepost.db import Connection
from tests.archiving import Archive
from tests.integration.cli.command import Cli
from tests.undecodable import append_undecodable


@pytest.fixture
def positions(conn: Connection) -> list[Position]:
    return append(
        conn,
        *(
            Message(("Placed", "Paid")[n % 2], {"n": n}, key=f"key-{n % 5}", topic=f"topic-{n % 3}")
            for n in range(30)
        ),
    )


FILTERS: list[list[str]] = [
    ["--topic", "topic-1"],
    ["--type", "Paid", "--topic", "topic-0", "--topic", "topic-2"],
    ["--segment", "1/1"],
    ["--limit", "7"],
]


def test_read_prints_the_same_from_wherever_it_is(
    cli: Cli, archive: Archive, positions: list[Position]
) -> None:
    """From each start, with each filter, and with both. Every combination of them is what the model
    of the log tries (tests/integration/log/history)."""
    messages = [json.loads(line) for line in cli.run("read").stdout.splitlines()]
    starts = ["beginning", "end", str(positions[11]), messages[14]["recorded_at"]]
    ways = [["--from", start] for start in starts] + FILTERS
    ways += [["--from", start, *way] for start, way in zip(starts[2:], FILTERS, strict=False)]
    before = [cli.run("read", *way).stdout for way in ways]
    assert all(printed for way, printed in zip(ways, before, strict=True) if "end" not in way)
    archive.move(positions[9])
    archive.move(positions[19])
    for way, printed in zip(ways, before, strict=True):
        result = cli.run("read", *way)
        assert (way, result.code, result.stdout) == (way, 0, printed)


def test_a_message_that_cannot_be_encoded_again_is_printed_as_it_is_stored(
    cli: Cli, conn: Connection, archive: Archive
) -> None:
    conn.execute(
        """insert into milepost.messages (type, data) values ('Half', '{"a":"\\ud800"}')"""
    )
    append_undecodable(conn, "digits")
    append_undecodable(conn, "BC")
    before = cli.run("read")
    assert before.code == 0
    archive.move()
    assert cli.run("read").stdout == before.stdout


def test_follow_goes_on_in_the_table(
    cli: Cli, conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    archive.move()
    process = cli.start("read", "--follow", "--from", str(positions[26]))
    try:
        found = [_next(process)["position"] for _ in range(3)]
        found += [_appended(process, conn)]
        archive.move()
        found += [_appended(process, conn)]
    finally:
        process.kill()
        process.communicate()
    assert found[:3] == [str(position) for position in positions[27:]]
    assert len(set(found)) == 5


def _appended(process: subprocess.Popen[str], conn: Connection) -> object:
    (position,) = append(conn, Message("New", {}))
    found = _next(process)["position"]
    assert found == str(position)
    return found


def _next(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    line: dict[str, object] = json.loads(process.stdout.readline())
    return line


@pytest.mark.parametrize("order", ["append"])
def test_a_missing_file_is_named(cli: Cli, archive: Archive, positions: list[Position]) -> None:
    file = archive.move()
    archive.path(file).unlink()
    result = cli.run("read")
    assert result.code != 0
    assert file.name in result.stderr
    assert "Traceback" not in result.stderr
    assert len(positions) == 30


@pytest.mark.parametrize("order", ["append"])
def test_what_is_gone_without_an_archive_is_refused(
    cli: Cli, archive: Archive, positions: list[Position]
) -> None:
    archive.remove(positions[9])
    result = cli.run("read")
    assert result.code != 0
    assert f"Start from {positions[9]}" in result.stderr
    assert len(cli.run("read", "--from", str(positions[9])).lines()) == 20


@pytest.mark.parametrize("order", ["append"])
def test_sql_names_the_command(
    cli: Cli, conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    archive.move(positions[19])
    with pytest.raises(Exception, match="only in the archive") as refused:
        conn.execute("select * from milepost.read((0, 3))")
    command = str(refused.value).partition("milepost ")[2].splitlines()[0].split()
    assert len(cli.run(*command).lines()) == 27


def test_reset_and_lag_of_a_processor_with_everything_archived(
    cli: Cli, mp: Milepost, conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    seen: list[Position] = []

    @mp.processor("again", delivery="at_least_once", handle="message")
    def handle(message: object) -> None:
        seen.append(message.position)  # type: ignore[attr-defined]  # a message

    handle.run(until="caught_up")
    archive.move(positions[9])
    archive.move()
    result = cli.run("processors", "reset", "again", "--to", "beginning", "--yes")
    assert result.code == 0, result.stderr
    (listed,) = [
        each for each in cli.run("processors", "list", "--json").document()
        if each["name"] == "again"
    ]  # fmt: skip
    assert (listed["lag_messages"], listed["is_lag_exact"]) == (30, True)
    handle.run(until="caught_up")
    assert seen == positions * 2
