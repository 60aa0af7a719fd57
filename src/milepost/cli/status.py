"""`milepost status`: the log and everything that works on it, at a glance."""

from __future__ import annotations

from dataclasses import asdict

import typer

from milepost import sql
from milepost.cli import doctor, options, pipelines, processors, queue
from milepost.cli.database import open_log
from milepost.cli.output import print_json
from milepost.health import Limits
from milepost.health.describe import log_checks
from milepost.pipeline.admin import list_pipelines
from milepost.processors import admin
from milepost.queue import admin as queue_admin


def command(
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Show the log, its horizon, where every processor and pipeline stands, and the queue."""
    mp = open_log(url, schema)
    with mp.connect() as conn:
        found = admin.list_processors(conn, schema)
        spark = list_pipelines(conn, schema)
        jobs = queue_admin.summary(conn, schema)
    diagnosis, limits = mp.diagnose(), Limits()
    if as_json:
        print_json(
            {
                "log": doctor.as_document(diagnosis, diagnosis.problems(limits.warn_seconds)),
                "processors": [processors.as_document(status) for status in found],
                "pipelines": [pipelines.as_document(status) for status in spark],
                "queue": asdict(jobs),
            }
        )
        return
    for check in log_checks(diagnosis, limits):
        typer.echo(f"{check.name:8} {check.detail}")
    typer.echo()
    processors.print_table(found)
    if spark:
        typer.echo()
        pipelines.print_table(spark)
    typer.echo("\nqueue")
    for line in queue.summary_lines(jobs):
        typer.echo(f"  {line}")
