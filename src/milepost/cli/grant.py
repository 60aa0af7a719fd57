"""`milepost grant`: let a role do what it is there for, and nothing else."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.grants import ACTIVITIES


def command(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="As it is called, case and all.")],
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            metavar="ACTIVITY",
            help="append: write messages. read: read them. put: add jobs. process: run processors. "
            "work: run workers and schedules. pipeline: run pipelines. operate: pause, skip, "
            "reset, retry and so on. metrics: status, doctor and listings. Repeatable.",
        ),
    ],
    is_applied: Annotated[
        bool, typer.Option("--apply", help="Grant it, instead of printing the SQL.")
    ] = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Print the least privileges that a role needs, as SQL for psql, or grant them. Safe to repeat;
    to be repeated after every migrate."""
    activities = _activities(to)
    mp = open_log(url, schema)
    if is_applied:
        mp.grant(role, *activities)
        typer.echo(f"granted to {role} in schema {schema}: {', '.join(activities)}")
    else:
        typer.echo(mp.grant_script(role, *activities), nl=False)


def _activities(given: list[str]) -> list[sql.Activity]:
    """Checked here, as typer has no list of choices."""
    for text in given:
        if text not in ACTIVITIES:
            raise typer.BadParameter(
                f"{text!r} is none of {', '.join(ACTIVITIES)}.", param_hint="--to"
            )
    return [activity for activity in ACTIVITIES if activity in given]
