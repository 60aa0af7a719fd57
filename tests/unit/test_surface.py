"""What users may call, as one reviewed text: a change of it shows in the commit that makes it.

`python -m tests.unit.test_surface > tests/unit/surface.txt` writes it again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from tools.site.sql_reference import FUNCTIONS, functions

import milepost
from milepost import processors, queue
from milepost.cli.app import app_for
from milepost.pipeline import definition as pipelines

SURFACE = Path(__file__).with_name("surface.txt")


def surface() -> str:
    return "\n".join([*_python(), "", *_commands("milepost", _root()), "", *_sql(), ""])


def _python() -> Iterator[str]:
    yield from (f"milepost.{name}" for name in sorted(milepost.__all__))
    for name, member in sorted(vars(milepost.Milepost).items()):
        if not name.startswith("_"):
            yield f"Milepost.{name}{_parameters(member)}"
    yield f"@mp.processor {' '.join(sorted(processors.Options.__annotations__))}"
    yield f"@mp.pipeline {' '.join(sorted(['sink', *pipelines.Options.__annotations__]))}"
    yield f"@mp.worker {' '.join(sorted(queue.Options.__annotations__))}"


def _parameters(member: object) -> str:
    function = getattr(member, "__func__", member)
    if not callable(function):
        return ""
    return f"({', '.join(map(_shown, inspect.signature(function).parameters.values()))})"


def _shown(parameter: inspect.Parameter) -> str:
    """Without types and values: `*messages`, `once=`."""
    name, *_ = re.split(r"[:=]", str(parameter))
    return name if parameter.default is inspect.Parameter.empty else f"{name}="


def _root() -> Any:
    return typer.main.get_command(app_for([]))


def _commands(name: str, command: Any) -> Iterator[str]:
    if not hasattr(command, "commands"):
        options = sorted(option for each in command.params for option in each.opts)
        yield " ".join([name, *options])
    for word, each in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(f"{name} {word}", each)


def _sql() -> Iterator[str]:
    for name in sorted(name for names in FUNCTIONS.values() for name in names):
        yield from (re.sub(r"\s+", " ", each.text) for each in functions(name))


def test_the_public_surface_is_the_reviewed_one() -> None:
    assert surface() == SURFACE.read_text(), "review the change, then write surface.txt again"


if __name__ == "__main__":
    print(surface(), end="")  # noqa: T201
