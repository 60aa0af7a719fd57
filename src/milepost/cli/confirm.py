"""Asking before something is deleted or rewound."""

from __future__ import annotations

import sys

import typer

from milepost.cli.output import say
from milepost.errors import NotConfirmed


def confirm(what: str, *, yes: bool) -> None:
    """Returns if it is to be done: `This will {what}`. Where there is no terminal, only --yes is
    an answer: a script must not wait for one, nor take silence for consent."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise NotConfirmed(what)
    if not typer.confirm(f"This will {what}. Go on?", err=True):
        say("nothing was changed")
        raise typer.Exit(1)
