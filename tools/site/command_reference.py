"""The reference of the command line: what every command says about itself."""

from __future__ import annotations

import typer
from typer.cli import get_docs_for_click

from milepost.cli.app import app_for


def page() -> str:
    command = typer.main.get_command(app_for([]))
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="milepost")
    return text.replace("# `milepost`", "# The command line", 1).replace("```console", "```text")
