from __future__ import annotations

import re
import signal
from typing import Any

import pytest

from milepost import Message, Milepost, Position
from milepost.db import Connection
from tests.integration.cli.command import Cli
from tests.waiting import wait_until

APPLICATION = "tests.integration.cli.application"
# What the commands do is the same in both orders; what they call is tested in both.
pytestmark = pytest.mark.parametrize("order", ["append"])


@pytest.fixture
def positions(mp: Milepost, conn: Connection) -> list[Position]:
    """Five orders, of which the third is bad, and one message of another topic."""
    orders = [Message("OrderPlaced", {"is_bad": n == 3}, topic="orders") for n in range(1, 6)]
    return mp.append(conn, *orders, Message("Other", {}))


def run(cli: Cli, name: str, code: int = 0) -> str:
    result = cli.run("run", f"{APPLICATION}:mp", "--only", name, "--until", "caught_up")
    assert result.code == code, result
    return result.stderr


def listed(cli: Cli, name: str) -> dict[str, Any]:
    (found,) = [p for p in cli.run("processors", "--json").document() if p["name"] == name]
    return dict(found)


def test_run_ends_with_the_error_of_a_processor_and_the_list_shows_it(
    cli: Cli, positions: list[Position]
) -> None:
    assert f"on the message at {positions[2]}: ValueError: a bad order" in run(cli, "picky", 1)
    status = listed(cli, "picky")
    assert status["state"] == "failed"
    assert status["position"] == str(positions[1])
    assert status["lag_messages"] == 3
    assert status["lag_seconds"] > 0
    assert "a bad order" in status["last_error"]


def test_skip_moves_past_the_message_and_keeps_it_as_a_dead_letter(
    cli: Cli, positions: list[Position]
) -> None:
    run(cli, "picky", 1)
    assert str(positions[2]) in cli.run("processors", "skip", "picky").stdout
    run(cli, "picky")
    assert listed(cli, "picky")["position"] == str(positions[5])
    (letter,) = cli.run("dead-letters", "--json").document()
    assert letter["position"] == str(positions[2])
    assert letter["error"] == "skipped by an operator"
    nothing = cli.run("processors", "skip", "picky")
    assert (nothing.code, "no message to skip" in nothing.stderr) == (1, True)


@pytest.mark.parametrize(("to", "expected"), [("beginning", "0:0"), ("2", "0:2"), ("end", None)])
def test_reset_puts_the_checkpoint_where_it_is_told(
    cli: Cli, positions: list[Position], to: str, expected: str | None
) -> None:
    run(cli, "lenient")
    assert cli.run("processors", "reset", "lenient", "--to", to, "--yes").code == 0
    assert listed(cli, "lenient")["position"] == (expected or str(positions[-1]))


def test_reset_refuses_what_is_no_place_in_the_log(cli: Cli, positions: list[Position]) -> None:
    run(cli, "lenient")
    result = cli.run("processors", "reset", "lenient", "--to", "nowhere")
    assert result.code == 2
    assert "--to" in result.stderr


def test_dead_letters_are_listed_shown_retried_and_dropped(
    cli: Cli, conn: Connection, positions: list[Position]
) -> None:
    run(cli, "lenient")
    (letter,) = cli.run("dead-letters", "list", "--json").document()
    assert (letter["processor"], letter["position"]) == ("lenient", str(positions[2]))
    assert letter["error"] == "ValueError: a bad order"
    number = str(letter["id"])
    assert "refuse_bad" in cli.run("dead-letters", "show", number).document()["traceback"]
    assert "ValueError: a bad order" in cli.run("dead-letters").stdout
    assert cli.run("dead-letters", "retry", number).code == 0
    run(cli, "lenient")
    (again,) = cli.run("dead-letters", "list", "--json").document()
    assert again["attempts"] == letter["attempts"] + 1
    assert cli.run("dead-letters", "drop", number, "--yes").stdout == "dropped 1 dead letter\n"
    assert cli.run("dead-letters", "--json").document() == []
    assert cli.run("dead-letters", "show", number).code == 1
    assert cli.run("dead-letters", "drop").code == 2


def test_pause_and_resume_reach_a_running_process_and_sigterm_ends_it(
    cli: Cli, mp: Milepost, conn: Connection, positions: list[Position]
) -> None:
    process = cli.start("run", f"{APPLICATION}:mp", "--only", "lenient")
    try:
        wait_until(lambda: _position(conn) == positions[5])
        assert cli.run("processors", "pause", "lenient").code == 0
        wait_until(lambda: _state(conn) == "paused")
        (later,) = mp.append(conn, Message("OrderPlaced", {}, topic="orders"))
        assert listed(cli, "lenient")["lag_messages"] == 1
        assert cli.run("processors", "resume", "lenient").code == 0
        wait_until(lambda: _position(conn) == later)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert "state=stopped" in errors
    finally:
        process.kill()
        process.communicate()


def test_status_and_the_table_fit_80_columns(cli: Cli, positions: list[Position]) -> None:
    run(cli, "lenient")
    for arguments in (["status"], ["processors"], ["dead-letters"]):
        output = cli.run_on_terminal(*arguments).stdout
        assert "lenient" in output
        assert max(map(len, output.splitlines())) <= 80
    document = cli.run("status", "--json").document()
    assert document["log"]["ok"] is True
    assert [p["name"] for p in document["processors"]] == ["lenient"]
    assert "lag_messages" in cli.run("processors", "show", "lenient").stdout


def test_a_table_in_a_pipe_is_not_cut(
    cli: Cli, conn: Connection, positions: list[Position]
) -> None:
    run(cli, "lenient")
    error = "ValueError: " + "a bad order, " * 40 + "that is all"
    owner = "host-with-a-very-long-name.example:12345:abcdef"
    conn.execute("update milepost.dead_letters set error = %s", (error,))
    conn.execute("update milepost.processors set owner = %s, last_error = %s", (owner, error))
    head, row = cli.run("dead-letters").stdout.splitlines()
    assert (head.split()[-1], row.endswith(error)) == ("error", True)
    head, row, below, *_ = cli.run("processors").stdout.splitlines()
    assert row.split()[-1] == owner
    assert re.fullmatch(rf"lenient, recovered, \S+ s ago: {error}", below)
    for command in ("dead-letters", "processors"):
        shown = cli.run_on_terminal(command, columns=100).stdout
        assert max(map(len, shown.splitlines())) <= 100
        assert "…" in shown


@pytest.mark.parametrize(
    ("application", "complaint"),
    [
        ("nowhere:mp", "no module 'nowhere'"),
        (f"{APPLICATION}:missing", "is nothing, expected a Milepost"),
        (f"{APPLICATION}:nothing", "is a str, expected a Milepost"),
        (f"{APPLICATION}:empty", "has no processors"),
        (APPLICATION, "is not of the form MODULE:NAME"),
    ],
)
def test_an_application_that_cannot_be_run_is_a_clear_error(
    cli: Cli, application: str, complaint: str
) -> None:
    result = cli.run("run", application)
    assert (result.code, complaint in result.stderr) == (1, True), result


def test_an_unknown_processor_is_named_with_those_there_are(
    cli: Cli, positions: list[Position]
) -> None:
    run(cli, "lenient")
    for arguments in (["processors", "pause", "nobody"], ["processors", "show", "nobody"]):
        result = cli.run(*arguments)
        assert (result.code, "There are: lenient" in result.stderr) == (1, True)
    result = cli.run("run", f"{APPLICATION}:mp", "--only", "nobody")
    assert (result.code, "There are: chores, lenient, picky" in result.stderr) == (1, True)


def _position(conn: Connection) -> Position | None:
    row = conn.execute("select transaction_id, position from milepost.checkpoints").fetchone()
    return None if row is None else Position(*row)


def _state(conn: Connection) -> str:
    row = conn.execute("select state from milepost.processors").fetchone()
    return "" if row is None else str(row[0])
