"""`milepost status`: an overview of the log and everything that works on it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from milepost.app import Milepost
from milepost.cli import options
from milepost.cli.commands import doctor, pipelines, processors, queue
from milepost.cli.following import as_document
from milepost.cli.output import print_json
from milepost.health import (
    ArchiveStatus,
    Limits,
    describe_archive,
    log_checks,
    look_at_archive,
)
from milepost.pipeline.admin import list_pipelines
from milepost.processors import admin
from milepost.queue import admin as queue_admin


def command(mp: Milepost, as_json: options.AsJson = False) -> None:
    """Show the log, its horizon, the progress of every processor and pipeline, and the queue."""
    with mp.connect() as conn:
        found = admin.list_processors(conn, mp.schema)
        spark = list_pipelines(conn, mp.schema)
        jobs = queue_admin.summary(conn, mp.schema)
        archive = look_at_archive(conn, mp.schema)
    diagnosis, limits = mp.diagnose(), Limits()
    if as_json:
        print_json(
            {
                "log": doctor.as_document(diagnosis, diagnosis.problems(limits.warn_seconds)),
                "processors": [as_document(status) for status in found],
                "pipelines": [as_document(status) for status in spark],
                "archive": archive and _archive_document(archive),
                "queue": asdict(jobs),
            }
        )
        return
    for check in log_checks(diagnosis, limits):
        typer.echo(f"{check.name:8} {check.detail}")
    if archive is not None:
        typer.echo(f"archive  {describe_archive(archive)}")
    typer.echo()
    processors.print_processors(found)
    if spark:
        typer.echo()
        pipelines.print_pipelines(spark)
    typer.echo("\nqueue")
    for line in queue.summary_lines(jobs):
        typer.echo(f"  {line}")


def _archive_document(status: ArchiveStatus) -> dict[str, Any]:
    return {
        "location": status.location,
        "archived_up_to": str(status.archived_up_to),
        "waiting_seconds": status.waiting_seconds,
        "state": status.state,
    }
