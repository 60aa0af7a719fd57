"""What users and producers name stands quoted in every command that is shown to be pasted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pytest

import milepost
from milepost.errors import HandlerFailed

ROOT = Path(milepost.__file__).parent
COMMAND = re.compile(r"\bmilepost [a-z]")
END = re.compile(r"[.;,)`](\s|$)|: |</|\n\n")
# What cannot hold anything else than a number, a word of ours, or what is quoted already.
SAFE = {
    "job", "id", "position", "self.kept", "replaced", "area", "option", "_option", "role",
    "self.activity or 'ACTIVITY'", "schema_option(self.schema)", "Archiver.name", "requested",
    "_url(*listening.getsockname()[:2])",
}  # fmt: skip
HOSTILE = "$(touch hacked)"


def unquoted(texts: list[str | ast.expr]) -> Iterator[str]:
    """What a command has that is neither quoted nor safe, in a text of constants and fields."""
    in_command = False
    for part in texts:
        if isinstance(part, str):
            begins = [found.start() for found in COMMAND.finditer(part)]
            ends = [found.start() for found in END.finditer(part)]
            if begins or ends:
                in_command = max(begins, default=-1) > max(ends, default=-1)
        elif in_command and not is_safe(field := ast.unparse(part)):
            yield field


def is_safe(field: str) -> bool:
    return field in SAFE or field.startswith("quote(") or field.endswith(("!q", "|shell"))


def fields_of(text: str, field: str) -> list[str | ast.expr]:
    """A template, as the parts of an f-string."""
    parts = re.split(field, " ".join(text.split()))
    return [part if n % 2 == 0 else ast.Name(part.strip()) for n, part in enumerate(parts)]


def in_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield from unquoted(list(map(part_of, node.values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from unquoted(fields_of(node.value, r"\{(\w+(?:![a-z])?)(?::[^}]*)?\}"))


def part_of(value: ast.expr) -> str | ast.expr:
    if isinstance(value, ast.FormattedValue):
        return value.value
    assert isinstance(value, ast.Constant)
    return str(value.value)


def test_every_name_in_a_command_is_quoted() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {field}"
        for path in ROOT.rglob("*.py")
        for field in in_python(path)
    } | {
        f"{path.relative_to(ROOT)}: {field}"
        for path in ROOT.rglob("*.html")
        for field in unquoted(fields_of(path.read_text(), r"\{\{ *([^}]*?) *\}\}"))
    }
    assert not found


@pytest.mark.parametrize(
    ("template", "is_found"),
    [
        ("Run: milepost queue retry {name!q} --at {position}. {name} waits.", False),
        ("Run: milepost queue retry {name} --at 1", True),
        ("Run: milepost queue retry {name!r}", True),
    ],
)
def test_the_search_finds_what_is_not_quoted(template: str, is_found: bool) -> None:
    parts = fields_of(template, r"\{(\w+(?:![a-z])?)\}")
    assert bool(list(unquoted(parts))) is is_found


def test_an_error_quotes_what_its_command_names() -> None:
    error = HandlerFailed(HOSTILE, "1:1", 1, "cause")
    _, _, command = str(error).rpartition("milepost ")
    assert quote(HOSTILE) in command
