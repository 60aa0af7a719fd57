"""`milepost pipelines`: where each stands, its versions, and what operators can do about them."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.confirm import confirm
from milepost.cli.database import open_log
from milepost.cli.output import console, duration, fitted, print_json
from milepost.cli.progress import progress
from milepost.cli.run import load
from milepost.errors import UnknownPipeline
from milepost.pipeline import admin
from milepost.pipeline.settings import project_table, spark_settings

if TYPE_CHECKING:
    from typing import Literal

    from milepost.pipeline.admin import PipelineStatus
    from milepost.pipeline.course import Progress
    from milepost.pipeline.rebuild import Rebuilt

app = typer.Typer(
    help="Pipelines on Spark: list, show, rebuild, rollback, drop, pause, resume.",
    invoke_without_command=True,
)
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME")]
Justify: TypeAlias = "Literal['left', 'right']"
_RIGHT = ("lag", "rows/s", "batches/s")


@app.callback()
def default(
    context: typer.Context,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Without a command: list."""
    if context.invoked_subcommand is None:
        list_all(url, schema, as_json)


@app.command("list")
def list_all(
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Every version of every pipeline that has run on this log; the active one has a star."""
    with open_log(url, schema).connect() as conn:
        found = admin.list_pipelines(conn, schema)
    if as_json:
        print_json([as_document(status) for status in found])
    else:
        print_table(found)


@app.command()
def show(
    name: Name,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Everything known about one pipeline."""
    with open_log(url, schema).connect() as conn:
        found = [as_document(status) for status in admin.find(conn, schema, name)]
    if as_json:
        print_json(found)
        return
    for document in found:
        typer.echo(f"{name} version {document['version']}")
        for fact, value in document.items():
            typer.echo(f"  {fact:18} {'-' if value is None else value}")


@app.command()
def rebuild(
    name: Name,
    application: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="Where the Milepost instance is: app:mp.")
    ],
    to_version: Annotated[
        int | None,
        typer.Option(min=1, help="Its number; else the next one, or that of an interrupted one."),
    ] = None,
    drop_old: Annotated[
        bool, typer.Option("--drop/--keep", help="What becomes of the version that is replaced.")
    ] = False,
    max_messages: Annotated[
        int | None, typer.Option(min=1, show_default="500000", help="How many to apply at once.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(envvar="MILEPOST_SPARK_MASTER", show_default="local[*]")
    ] = None,
    spark_conf: Annotated[
        list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="Repeatable.")
    ] = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Fill a new version of its table from the log, while the old one goes on serving; then let
    the target show the new one. Interrupted, it goes on where it stopped."""
    mp = load(application)
    if name not in mp.pipelines:
        raise UnknownPipeline(name, sorted(mp.pipelines))
    settings = spark_settings(project_table(Path.cwd()), os.environ, master, spark_conf or ())
    if drop_old:
        confirm(f"drop the version of {name} that is replaced, with its table", yes=yes)
    pipeline = mp.pipelines[name].using(settings)
    with progress() as shown:

        def watch(found: Progress) -> None:
            label = f"{name} v{found.version} {found.phase}"
            shown.update(label, found.done, found.total)

        rebuilt = pipeline.rebuild(
            to_version, drop_old=drop_old, max_messages=max_messages, watch=watch
        )
    if as_json:
        print_json(asdict(rebuilt) | {"position": str(rebuilt.position)})
    else:
        typer.echo(_sentence(rebuilt))


@app.command()
def rollback(
    name: Name,
    to_version: Annotated[
        int | None, typer.Option(min=1, help="Else the highest that is kept below the active one.")
    ] = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Let the target show a kept version again; it goes on from that version's own position."""
    with open_log(url, schema).connect() as conn:
        before, after = admin.roll_back(conn, schema, name, to_version)
    typer.echo(f"{name} shows version {after} again; version {before} is kept")


@app.command()
def drop(
    name: Name,
    version: Annotated[int, typer.Option(min=1, help="Which; never the active one.")],
    yes: options.Yes = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Drop a version: its table, its checkpoint and what is known of it."""
    with open_log(url, schema).connect() as conn:
        admin.refuse_undroppable(conn, schema, name, version)
        confirm(f"drop version {version} of {name}, with its table", yes=yes)
        admin.drop(conn, schema, name, version)
    typer.echo(f"dropped {name} version {version}")


@app.command()
def pause(name: Name, url: options.Url = None, schema: options.Schema = sql.DEFAULT_SCHEMA) -> None:
    """Let it finish the batch in hand and wait; a rebuild goes on."""
    _set_paused(name, url, schema, is_paused=True)


@app.command()
def resume(
    name: Name, url: options.Url = None, schema: options.Schema = sql.DEFAULT_SCHEMA
) -> None:
    """Let a paused pipeline go on."""
    _set_paused(name, url, schema, is_paused=False)


def as_document(status: PipelineStatus) -> dict[str, Any]:
    document = asdict(status)
    del document["transaction_id"]
    position = status.checkpoint
    return document | {"position": None if position is None else str(position)}


def print_table(found: list[PipelineStatus]) -> None:
    from rich.table import Table

    if not found:
        typer.echo("no pipeline has run on this log yet")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "version", "state", "position", "lag", "behind", "rows/s", "batches/s"):
        justify: Justify = "right" if column in _RIGHT else "left"
        table.add_column(column, justify=justify, no_wrap=True)
    for status in found:
        table.add_row(*_cells(status))
    out = console()
    out.print(table)
    for status in found:
        label = f"{status.name} v{status.version}"
        if status.phases_ms and status.state != "kept":
            out.print(fitted(f"{label}: {phases(status.phases_ms)}", out.width))
        if status.last_error is not None:
            out.print(fitted(f"{label}: {status.last_error}", out.width), style="red")


def phases(phases_ms: dict[str, float]) -> str:
    """The last batch, in ms. Spark's own phases are in --json and show."""
    own = {name: ms for name, ms in phases_ms.items() if not name.startswith("spark.")}
    return "last batch " + ", ".join(f"{name} {ms:,.0f} ms" for name, ms in own.items())


def _cells(status: PipelineStatus) -> list[str]:
    lag = f"{status.lag_messages:,}" if status.is_lag_exact else f"{status.lag_messages:,}+"
    behind = duration(status.lag_seconds) if status.lag_messages else "-"
    checkpoint = str(status.checkpoint or "-").replace(":9223372036854775807", ":*")
    return [
        fitted(status.name, 20), f"{status.version}{'*' if status.is_active else ''}",
        status.state, checkpoint, "-" if status.state == "kept" else lag, behind,
        f"{status.rows_per_second:,.0f}", f"{status.batches_per_second:,.1f}",
    ]  # fmt: skip


def _sentence(rebuilt: Rebuilt) -> str:
    old = "" if rebuilt.replaced is None else f" in place of version {rebuilt.replaced}"
    fate = "" if rebuilt.replaced is None else ", which is kept"
    if rebuilt.is_old_dropped:
        fate = ", which is dropped"
    return (
        f"{rebuilt.name} shows version {rebuilt.version}{old}{fate}: {rebuilt.rows:,} rows up to "
        f"{rebuilt.position} in {duration(rebuilt.seconds)}"
    )


def _set_paused(name: str, url: str | None, schema: str, *, is_paused: bool) -> None:
    with open_log(url, schema).connect() as conn:
        admin.set_paused(conn, schema, name, is_paused=is_paused)
    typer.echo(f"{name}: {'paused' if is_paused else 'resumed'}")
