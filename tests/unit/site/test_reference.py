"""Every public name is in the reference, and says what it is."""

from __future__ import annotations

from pathlib import Path

import griffe
import pytest
from tools.site import command_reference, python_reference, sql_reference

import milepost

CLASS = '''
class Thing:
    """Documented."""

    def said(self): "Documented."
    def silent(self): ...
    @property
    def quiet(self): ...
    def _own(self): ...

class Mute: ...
'''


def test_nothing_is_missing() -> None:
    assert [*python_reference.problems(), *sql_reference.problems()] == []


def test_all_that_is_exported_is_shown() -> None:
    page = python_reference.page().splitlines()
    exported = [name for name in milepost.__all__ if not name.startswith("_")]
    assert [name for name in exported if f"::: milepost.{name}" not in page] == []


def test_a_name_without_a_docstring_is_a_problem() -> None:
    module = griffe.visit("milepost", Path("milepost.py"), CLASS)
    found = [
        problem
        for name in ("Thing", "Mute")
        for problem in python_reference.undocumented(name, module[name])
    ]
    assert found == [
        "Thing.silent is public and has no docstring",
        "Thing.quiet is public and has no docstring",
        "Mute is public and has no docstring",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("from milepost.db import connect", "imports milepost.db.connect"),
        ("from milepost import (\n    Job,\n    nothing,\n)", "imports milepost.nothing"),
        ("`milepost.take_from(1)`", "calls milepost.take_from()"),
    ],
)
def test_what_a_document_uses_must_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    document = tmp_path / "guide.md"
    document.write_text(text)
    for reference in (python_reference, sql_reference):
        monkeypatch.setattr(reference, "documents", lambda: [document])
    (found,) = [*python_reference.problems(), *sql_reference.problems()]
    assert found.startswith(f"guide.md {problem}")


def test_a_function_has_its_comment_and_its_parameters() -> None:
    page = sql_reference.page()
    assert "### append\n\nAppend one message in the caller's transaction" in page
    assert "milepost.put(\n  channel text,\n  content json," in page
    assert "### dead_letters\n\nMessages that a processor gave up on." in page
    assert "{schema}" not in page


def test_every_command_is_shown() -> None:
    page = command_reference.page()
    assert "`milepost run`" in page
    assert "`milepost queue put`" in page
    assert "--unique-key" in page
