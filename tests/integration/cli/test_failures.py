"""Every failure is one line on stderr, with an exit code, and never shows a password."""

from __future__ import annotations

import socket

import pytest

from milepost.db import Connection
from tests import operated
from tests.integration.cli.command import Cli, Result

SECRET = "s3cr3t"  # noqa: S105


def is_one_error_line(result: Result, code: int = 1) -> bool:
    lines = result.stderr.splitlines()
    return result.code == code and len(lines) == 1 and lines[0].startswith("error: ")


@pytest.mark.parametrize("command", ["read", "rebase"])
def test_a_database_that_is_not_migrated_names_the_command(
    empty_database: str, command: str
) -> None:
    result = Cli(empty_database).run(command)
    assert (result.code, result.stdout) == (1, "")
    assert result.stderr.endswith("Run: milepost migrate\n")


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize(
    "command",
    [
        ["ui", "--listen"],
        ["metrics", "--listen"],
        ["run", "tests.integration.cli.application:mp", "--health"],
    ],
)
def test_a_port_that_is_in_use_is_our_error(cli: Cli, command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = cli.run(*command, f"127.0.0.1:{port}")
    assert is_one_error_line(result)
    assert f"Could not listen on 127.0.0.1 port {port}: Address already in use." in result.stderr
    assert f"pass another HOST:PORT as {command[-1]}" in result.stderr


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("command", ["append", "migrate"])
def test_a_database_newer_than_the_code_is_refused(
    cli: Cli, conn: Connection, command: str
) -> None:
    conn.execute("insert into milepost.migrations (number, name) values (9999, 'later')")
    conn.execute("update milepost.log set oldest_code = 9999")
    result = cli.run(command)
    assert is_one_error_line(result)
    assert "is at migration 9999" in result.stderr
    assert "Upgrade the package" in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://someone:{SECRET}@127.0.0.1:1/none",
        f"postgresql://someone:{SECRET}@host.invalid/none",
        f"postgresql://someone:{SECRET}@[::1/none",
        f"postgresql://someone:a@{SECRET}@127.0.0.1:1/none",
        SECRET,
    ],
)
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(("command", "code"), [("read", 1), ("doctor", 2)])
def test_a_password_is_never_shown(url: str, debug: bool, command: str, code: int) -> None:
    """Neither where there is no server, nor where libpq would quote what it cannot parse."""
    result = Cli(url, {"MILEPOST_DEBUG": "1"} if debug else {}).run(command)
    assert (result.code, result.stdout) == (code, "")
    assert SECRET not in result.stderr
    assert "Traceback" in result.stderr if debug else is_one_error_line(result, code)


@pytest.mark.parametrize("order", ["append"])
def test_a_password_the_server_refuses_is_not_shown(url: str) -> None:
    foreign = f"{url} user=nobody_we_know password={SECRET}"
    result = Cli("unused").run("migrate", "--sql", "--url", foreign)
    assert is_one_error_line(result)
    assert "nobody_we_know" in result.stderr
    assert SECRET not in result.stdout + result.stderr


def test_debug_shows_where_an_error_comes_from(empty_database: str) -> None:
    result = Cli(empty_database).run("--debug", "read")
    assert result.code == 1
    assert "Traceback" in result.stderr
    assert "NotMigrated" in result.stderr


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["read", "--from", "yesterday"], "neither beginning"),
        (["read", "--segment", "4/3"], "not a segment"),
        (["append", "--batch-size", "0"], "--batch-size"),
    ],
)
def test_wrong_usage_exits_with_2(cli: Cli, arguments: list[str], complaint: str) -> None:
    result = cli.run(*arguments)
    assert (result.code, result.stdout) == (2, "")
    assert complaint in result.stderr


@pytest.mark.parametrize("order", ["append"])
def test_a_server_that_ends_during_a_command_is_our_error(cli: Cli, conn: Connection) -> None:
    conn.execute("select milepost.set_channel('emails')")
    operated.end_whoever_pauses(conn)
    result = cli.run("channels", "pause", "emails")
    assert is_one_error_line(result)
    assert "error: The connection to the server was lost: terminating conn" in result.stderr
    assert "repeat the command" in result.stderr
