"""`milepost pipelines try`, `plan` and `graph`: what pipelines would do. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from milepost.cli import options, output
from milepost.cli.commands.read import parse_start
from milepost.cli.commands.run import load
from milepost.cli.following import shown
from milepost.errors import UnknownPipeline
from milepost.graph import as_document, as_mermaid, as_text
from milepost.pipeline.spark.settings import project_table, spark_settings
from milepost.records import Position

if TYPE_CHECKING:
    from datetime import datetime

    from milepost.app import Milepost
    from milepost.pipeline.pipeline import Pipeline
    from milepost.pipeline.preview import Plan, Preview
    from milepost.pipeline.spark.settings import SparkSettings

_CELL = 40  # characters of a value on a terminal


def try_out(
    name: options.Name,
    application: options.Application,
    last: Annotated[int, typer.Option(min=1, help="So many of the last messages.")] = 1000,
    after: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="START",
            help="Instead of --last: after a position (42 or 17:42), or since a time (ISO 8601).",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="END", help="Up to a position or time. Default: the end of the log."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="So many rows are shown.")] = 20,
    master: options.Master = None,
    spark_conf: options.SparkConf = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the output of a pipeline for the last messages that it selects, and whether its sink
    would take it. Writes nothing. Exits with 1 if the output would be refused."""
    pipeline = named(load(application), name).using(settings(master, spark_conf))
    found = pipeline.preview(
        last, after=_place(after, "--from"), to=_place(to, "--to"), limit=limit
    )
    if as_json:
        output.print_json(_preview_document(found))
    else:
        _print_preview(found, is_stateful=pipeline.definition.options.stateful)
    if found.refused is not None:
        output.say(f"would be refused: {found.refused}")
        raise typer.Exit(1)


def plan(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] MODULE:NAME",
            help="The pipelines, by default all, and where the Milepost instance is: app:mp.",
        ),
    ],
    master: options.Master = None,
    spark_conf: options.SparkConf = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what the next run would read and change. Writes nothing. Exits with 1 if a pipeline
    would be refused, for example because it needs a rebuild."""
    *names, application = words
    mp = load(application)
    chosen = [named(mp, name) for name in names] if names else [*mp.pipelines.values()]
    spark = settings(master, spark_conf)
    found = [pipeline.using(spark).plan() for pipeline in chosen]
    output.print_listing(found, _plan_document, _print_plans, as_json=as_json)
    if any(each.refused for each in found):
        raise typer.Exit(1)


def graph(
    application: options.Application,
    format_: Annotated[
        Literal["text", "mermaid"], typer.Option("--format", help="mermaid: a flowchart.")
    ] = "text",
    as_json: options.AsJson = False,
) -> None:
    """Show how topics, processors, pipelines, sinks, channels and workers feed each other, as far
    as the application declares it. What handlers append or put is known only by `feeds=[...]`."""
    found = load(application).graph()
    if not found.nodes and not as_json:
        typer.echo(f"{application} has no processors, pipelines or workers")
        return
    text = as_mermaid(found) if format_ == "mermaid" else as_text(found)
    output.print_result(as_document(found), text, as_json=as_json)


def named(mp: Milepost, name: str) -> Pipeline:
    if name not in mp.pipelines:
        raise UnknownPipeline(name, sorted(mp.pipelines))
    return mp.pipelines[name]


def settings(master: str | None, spark_conf: Sequence[str] | None) -> SparkSettings:
    return spark_settings(project_table(Path.cwd()), os.environ, master, spark_conf or ())


def _place(text: str | None, option: str) -> Position | datetime | None:
    found = None if text is None else parse_start(text, option)
    if found == "beginning":
        return Position.BEGINNING
    return None if isinstance(found, str) else found


def _preview_document(found: Preview) -> dict[str, Any]:
    document = asdict(found) | {"after": str(found.after), "last": str(found.last)}
    return document | {"rows": [json_value(row) for row in found.rows]}


def json_value(value: Any) -> Any:
    """As JSON can have it. Numbers with a fixed number of digits are strings."""
    if isinstance(value, Mapping):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str | date | time):
        return value
    return str(value)


def _print_preview(found: Preview, *, is_stateful: bool) -> None:
    typer.echo(
        f"{found.pipeline}: {found.row_count:,} rows of {found.messages:,} messages, after "
        f"{shown(found.after)} up to {shown(found.last)}"
    )
    if is_stateful:
        typer.echo("as one batch, without the state of what came before")
    has_types = any(column.type for column in found.columns)
    columns = [
        {"column": column.name, "type": column.spark_type}
        | ({"in PostgreSQL": column.type or "-"} if has_types else {})
        for column in found.columns
    ]
    typer.echo()
    output.print_table(columns, "no columns")
    typer.echo()
    rows = [{name: _cell(value) for name, value in row.items()} for row in found.rows]
    output.print_table(rows, "no rows")
    if left := found.row_count - len(found.rows):
        typer.echo(f"... and {left:,} more")
    if found.refused is None:
        typer.echo(f"\n{found.sink}: the output fits. Nothing was written")


def _cell(value: Any) -> str:
    return "null" if value is None else output.fitted(str(json_value(value)), _CELL)


def _plan_document(found: Plan) -> dict[str, Any]:
    return asdict(found) | {"after": str(found.after), "horizon": str(found.horizon)}


def _print_plans(found: list[Plan]) -> None:
    if not found:
        typer.echo("there are no pipelines")
    for each in found:
        typer.echo(f"{each.name} version {each.version}")
        output.print_facts(_facts(each), indent="  ")


def _facts(found: Plan) -> dict[str, Any]:
    total = found.archived + found.in_table
    facts = {
        "reads": _selection(found),
        "messages": f"about {total:,} after {shown(found.after)} up to {shown(found.horizon)}: "
        f"{found.archived:,} in files, {found.in_table:,} in PostgreSQL",
        "batches": f"at most {found.batches:,}",
        "sink": found.sink,
    }
    if found.target is not None:
        facts["target"] = _target(found)
        facts["columns"] = _columns(found.columns_now) if found.columns_now else "-"
    if found.columns_after not in ({}, found.columns_now):
        facts["columns after"] = _columns(found.columns_after)
    changes = "; ".join(found.changes) or "nothing changes but rows and the checkpoint"
    return facts | ({"changes": changes} if found.refused is None else {"refused": found.refused})


def _selection(found: Plan) -> str:
    topics = "every topic" if found.topics is None else f"topics {', '.join(found.topics)}"
    return topics if found.types is None else f"{topics}, types {', '.join(found.types)}"


def _target(found: Plan) -> str:
    if found.shown is None:
        return f"{found.target}, which does not exist yet"
    active = "" if found.active_version is None else f", version {found.active_version}"
    return f"{found.target}, a view of {found.shown}{active}"


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns.items())
