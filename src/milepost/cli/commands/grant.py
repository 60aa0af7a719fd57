"""`milepost grant`: give a role the privileges that it needs, and no others."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost import sql
from milepost.app import Milepost
from milepost.grants import ACTIVITIES


def command(
    mp: Milepost,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Case-sensitive.")],
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            metavar="ACTIVITY",
            help="append: write messages. read: read them. put: add jobs. process: run processors. "
            "work: run workers and schedules. pipeline: run pipelines. operate: pause, skip, "
            "reset, retry etc. metrics: status, doctor and listings. Repeatable.",
        ),
    ],
    is_applied: Annotated[
        bool, typer.Option("--apply", help="Grant them instead of printing the SQL.")
    ] = False,
) -> None:
    """Print the minimal privileges that a role needs, as SQL for psql, or grant them. Safe to
    repeat. Repeat it after every migrate."""
    activities = _activities(to)
    if is_applied:
        mp.grant(role, *activities)
        typer.echo(f"granted to {role} in schema {mp.schema}: {', '.join(activities)}")
    else:
        typer.echo(mp.grant_script(role, *activities), nl=False)


def _activities(given: list[str]) -> list[sql.Activity]:
    """Checked here, as Typer has no list of choices."""
    for text in given:
        if text not in ACTIVITIES:
            raise typer.BadParameter(
                f"{text!r} is not one of {', '.join(ACTIVITIES)}.", param_hint="--to"
            )
    return [activity for activity in ACTIVITIES if activity in given]
