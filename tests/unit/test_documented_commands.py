"""What the documents tell operators to enter exists: every command, and every option of it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from milepost.cli.app import app_for
from tests.documents import blocks

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *blocks.DOCUMENTS,
    *sorted((ROOT / "deploy").iterdir()),
    *sorted((ROOT / "examples").glob("[a-z]*.py")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELL = ("", "sh")  # the languages of blocks that hold commands
SPAN = re.compile(r"`([^`\n]+)`")
COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)
LIST = re.compile(r"\[([^\[\]]+)\]")  # of words, as JSON and YAML write it
# Up to what ends a command in a shell; a path may stand before it, as in a unit. Connections are
# called `milepost NAME`.
COMMAND = re.compile(r"(?:(?<![\w.:/-])|(?<=bin/))milepost +(?!NAME\b)((?:[^\s|;>&\\]+ *)+)")


def commands_of(document: Path) -> list[list[str]]:
    text = document.read_text()
    if document.suffix == ".md":
        blocks = FENCE.findall(text)
        spans = SPAN.findall(FENCE.sub("", text))
        text = "\n".join([*(body for language, body in blocks if language in SHELL), *spans])
    elif document.suffix == ".py":
        text = text.split('"""')[1]
    else:
        text = LIST.sub(lambda found: re.sub(r"[\",]+ *", " ", found[1]), text)
    return [shlex.split(found) for found in COMMAND.findall(COMMENT.sub("", text))]


def refusal(words: list[str]) -> str | None:
    """Why the command line does not know these words."""
    command: Any = typer.main.get_command(app_for([]))
    words = list(words)
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-"):
            break
        if words[0] not in command.commands:
            return f"there is no command {words[0]!r}"
        command = command.commands[words.pop(0)]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    unknown = [w for w in words if w.startswith("--") and w.partition("=")[0] not in known]
    return f"there is no option {unknown[0]!r}" if unknown else None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_every_command_exists(document: Path) -> None:
    wrong = {" ".join(words): refusal(words) for words in commands_of(document)}
    assert {words: why for words, why in wrong.items() if why} == {}


def test_commands_are_found() -> None:
    """Or the test above would be true of any text."""
    found = {d.name: [w[0] for w in commands_of(d)] for d in DOCUMENTS}
    assert {"run", "ui", "doctor"} <= set(found["README.md"])
    assert {"append", "read", "doctor"} <= set(found["concepts.md"])
    assert {"rebase", "doctor", "migrate", "run"} <= set(found["production.md"])
    assert {"pipelines", "run"} <= set(found["pipelines.md"])
    assert found["milepost.service"] == ["run"]
    assert found["Containerfile"] == ["run"]
    assert found["kubernetes.yaml"] == [
        "migrate", "grant", "grant", "run", "metrics", "doctor"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("rebase", None),
        ("run app:mp --stop-seconds 30", None),
        ("queue dead --json", None),
        ("rebaes", "there is no command 'rebaes'"),
        ("queue deed", "there is no command 'deed'"),
        ("doctor --warn-minutes=3", "there is no option '--warn-minutes=3'"),
    ],
)
def test_what_does_not_exist_is_noticed(words: str, why: str | None) -> None:
    assert refusal(words.split()) == why
