"""`milepost retention`, and `milepost processors abandon`."""

from __future__ import annotations

import json

import pytest

from milepost import Milepost, RecordedMessage
from milepost.db import Connection
from tests.integration.cli.command import Cli
from tests.integration.processors.conftest import Put, put

__all__ = ["put"]  # a fixture


def ignore(messages: list[RecordedMessage], tx: Connection) -> None:
    """As a processor that has handled everything."""


def test_a_policy_is_set_shown_run_and_removed(cli: Cli, put: Put) -> None:
    assert cli.run("retention").stdout.startswith("everything is kept\n")
    positions = put(10)
    done = cli.run("retention", "set", "--keep", "30d", "--keep-messages", "4", "--no-archive")
    assert done.stdout == "kept: messages of the last 30 d and the newest 4 messages\n"
    assert json.loads(cli.run("retention", "--json").stdout)["keep_seconds"] == 30 * 86_400

    cli.run("retention", "set", "--keep-messages", "4", "--no-archive")
    done = cli.run("retention", "run", "--json")
    document = json.loads(done.stdout)
    assert (document["removed"], document["removed_up_to"]) == (6, str(positions[5]))
    assert cli.run("retention", "unset").stdout == "everything is kept\n"
    assert cli.run("retention", "run").stderr.startswith("error: The log in schema milepost has no")


def test_who_keeps_messages_is_named_with_what_to_do(cli: Cli, mp: Milepost, put: Put) -> None:
    mp.processor("unused")(ignore).run(until="caught_up")
    put(3)
    cli.run("retention", "set", "--keep-messages", "0", "--no-archive")
    shown = cli.run("retention")
    assert "keeps messages" in shown.stdout
    assert "milepost processors abandon unused" in shown.stderr
    (gate,) = json.loads(cli.run("retention", "--json").stdout)["gates"]
    assert (gate["consumer"], gate["is_blocking"]) == ("unused", True)
    assert cli.run("retention", "run").stdout == "removed 0 messages, up to 0:0\n"

    assert cli.run("processors", "abandon", "unused", "--yes").stdout == "unused: abandoned\n"
    assert cli.run("retention", "run").stdout.startswith("removed 3 messages")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-archive"], "Give --keep"),
        (["--keep", "1d"], "gone for ever"),
        (["--keep", "soon", "--no-archive"], "'soon' is not a time"),
    ],
)
def test_bad_options_are_refused(cli: Cli, words: list[str], said: str) -> None:
    result = cli.run("retention", "set", *words)
    assert result.code == 2
    assert said in result.stderr
    assert cli.run("retention").stdout.startswith("everything is kept\n")
