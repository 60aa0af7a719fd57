"""`milepost pipelines`: the state of each pipeline, its versions, and what operators can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from milepost.app import Milepost
from milepost.cli import options, output
from milepost.cli.commands import previews
from milepost.cli.commands.run import load
from milepost.cli.following import (
    as_document,
    counted,
    print_error,
    print_versions,
    progress_cells,
)
from milepost.cli.on_log import command_of, new_group
from milepost.cli.progress import progress
from milepost.pipeline import admin
from milepost.pipeline.in_order import rebuild_in_order, rebuild_order
from milepost.words import count, duration

if TYPE_CHECKING:
    from milepost.pipeline.in_order import Order
    from milepost.pipeline.pipeline import Pipeline
    from milepost.pipeline.rebuild import Progress, Rebuilt
    from milepost.pipeline.spark.settings import SparkSettings


def list_all(mp: Milepost, as_json: options.AsJson = False) -> None:
    """List all versions of all pipelines that have run on this log; * marks the active version."""
    with mp.connect() as conn:
        found = admin.list_pipelines(conn, mp.schema)
    output.print_listing(found, as_document, print_pipelines, as_json=as_json)


app = new_group(
    "Pipelines on Spark: list, show, try, plan, graph, rebuild, rollback, drop, pause, resume.",
    list_all,
    "list",
)
command_of(app, "try")(previews.try_out)
command_of(app, "plan")(previews.plan)
command_of(app, "graph")(previews.graph)


@command_of(app)
def show(mp: Milepost, name: options.Name, as_json: options.AsJson = False) -> None:
    """Show everything known about one pipeline."""
    with mp.connect() as conn:
        found = admin.find(conn, mp.schema, name)
    print_versions(name, found, as_json=as_json)


@command_of(app)
def rebuild(
    name: options.Name,
    application: options.Application,
    downstream: Annotated[
        bool,
        typer.Option(
            "--downstream",
            help="Also all pipelines that it feeds, directly or not, in this order. NAME may be a "
            "topic. Those that cannot be rebuilt are named and passed over.",
        ),
    ] = False,
    to_version: Annotated[
        int | None,
        typer.Option(min=1, help="Default: the version of an interrupted rebuild, else the next."),
    ] = None,
    drop_old: Annotated[
        bool, typer.Option("--drop/--keep", help="Drop or keep the version that is replaced.")
    ] = False,
    max_messages: Annotated[
        int | None,
        typer.Option(min=1, show_default="500000, more for sums", help="Messages per step."),
    ] = None,
    master: options.Master = None,
    spark_conf: options.SparkConf = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Fill a new version of a pipeline's table from the log, while the old version keeps running;
    then make the target show the new version. Run it again to continue an interrupted rebuild."""
    mp = load(application)
    settings = previews.settings(master, spark_conf)
    rebuild_one = partial(_rebuild, settings, to_version, drop_old, max_messages)
    if downstream:
        _refuse_version(to_version)
        order = rebuild_order(name, mp.downstream(name))
        _say_order(order)
        _confirm_drop([each.name for each in order.pipelines] if drop_old else [], yes=yes)
        done = rebuild_in_order(order, rebuild_one)
        document: Any = {
            "rebuilt": [_document(rebuilt) for rebuilt in done],
            "passed_over": [asdict(each) for each in order.passed_over],
        }
        sentence = "\n".join(map(_sentence, done))
    else:
        pipeline = previews.named(mp, name)
        _confirm_drop([name] if drop_old else [], yes=yes)
        rebuilt = rebuild_one(pipeline)
        document, sentence = _document(rebuilt), _sentence(rebuilt)
    output.print_result(document, sentence, as_json=as_json)


@command_of(app)
def rollback(
    mp: Milepost,
    name: options.Name,
    to_version: Annotated[
        int | None, typer.Option(min=1, help="Default: the highest below the active version.")
    ] = None,
) -> None:
    """Make the target show an earlier version again; it continues from that version's position."""
    with mp.connect() as conn:
        before, after = admin.roll_back(conn, mp.schema, name, to_version)
    typer.echo(f"{name} shows version {after} again; version {before} is kept")


@command_of(app)
def drop(
    mp: Milepost,
    name: options.Name,
    version: Annotated[int, typer.Option(min=1, help="Which one; not the active version.")],
    yes: options.Yes = False,
) -> None:
    """Drop a version: its table, its checkpoint and its status."""
    with mp.connect() as conn:
        admin.refuse_undroppable(conn, mp.schema, name, version)
        output.confirm(f"drop version {version} of {name}, with its table", yes=yes)
        admin.drop(conn, mp.schema, name, version)
    typer.echo(f"dropped {name} version {version}")


@command_of(app)
def pause(mp: Milepost, name: options.Name) -> None:
    """Pause a pipeline. It finishes its current batch and then waits; a rebuild continues."""
    _set_paused(mp, name, is_paused=True)


@command_of(app)
def resume(mp: Milepost, name: options.Name) -> None:
    """Resume a paused pipeline."""
    _set_paused(mp, name, is_paused=False)


def print_pipelines(found: Sequence[admin.PipelineStatus]) -> None:
    rows = [_cells(status) for status in found]
    right = ("lag", "rows/s", "batches/s")
    output.print_table(rows, "no pipeline has run on this log yet", right=right)
    for status in found:
        label = f"{status.name} v{status.version}"
        if status.phases_ms and status.state != "kept":
            output.print_remark(f"{label}: {_phases(status.phases_ms)}")
        print_error(label, status)
        for remark in _remarks(status):
            output.print_remark(f"{label}: {remark}")


def _remarks(status: admin.PipelineStatus) -> Iterator[str]:
    if status.dead_letters:
        yield count(status.dead_letters, "dead letter")
    for expectation in status.expectations or []:
        if expectation["violated"]:
            yield f"expectation {expectation['name']!r}: {counted(expectation)}"


def _phases(phases_ms: dict[str, float]) -> str:
    """Of the last batch. --json and `show` have Spark's own phases too."""
    own = {name: ms for name, ms in phases_ms.items() if not name.startswith("spark.")}
    return "last batch " + ", ".join(f"{name} {ms:,.0f} ms" for name, ms in own.items())


def _cells(status: admin.PipelineStatus) -> dict[str, str]:
    cells = {
        "name": output.fitted(status.name, 20),
        "version": f"{status.version}{'*' if status.is_active else ''}",
        "state": status.state,
        **progress_cells(status),
        "rows/s": f"{status.rows_per_second:,.0f}",
        "batches/s": f"{status.batches_per_second:,.1f}",
    }
    return cells | ({"lag": "-"} if status.state == "kept" else {})


def _rebuild(
    settings: SparkSettings,
    to_version: int | None,
    drop_old: bool,
    max_messages: int | None,
    pipeline: Pipeline,
) -> Rebuilt:
    with progress() as show_progress:

        def watch(found: Progress) -> None:
            phase = f"{pipeline.name} v{found.version} {found.phase}"
            show_progress(phase, found.done, found.total)

        return pipeline.using(settings).rebuild(
            to_version, drop_old=drop_old, max_messages=max_messages, watch=watch
        )


def _refuse_version(to_version: int | None) -> None:
    if to_version is not None:
        raise typer.BadParameter(
            "Each pipeline has versions of its own: leave it out, or leave --downstream out.",
            param_hint="--to-version",
        )


def _say_order(order: Order) -> None:
    output.say(f"rebuilding {', '.join(each.name for each in order.pipelines)}, in this order")
    for each in order.passed_over:
        output.say(f"not {each.name}: {each.reason}")


def _confirm_drop(names: Sequence[str], *, yes: bool) -> None:
    if names:
        replaced = f"drop the version of {', '.join(names)} that is replaced, with its table"
        output.confirm(replaced, yes=yes)


def _document(rebuilt: Rebuilt) -> dict[str, Any]:
    return asdict(rebuilt) | {"position": str(rebuilt.position)}


def _sentence(rebuilt: Rebuilt) -> str:
    old = "" if rebuilt.replaced is None else f" in place of version {rebuilt.replaced}"
    fate = "" if rebuilt.replaced is None else ", which is kept"
    if rebuilt.is_old_dropped:
        fate = ", which is dropped"
    return (
        f"{rebuilt.name} shows version {rebuilt.version}{old}{fate}: {rebuilt.rows:,} rows up to "
        f"{rebuilt.position} in {duration(rebuilt.seconds)}"
    )


def _set_paused(mp: Milepost, name: str, *, is_paused: bool) -> None:
    with mp.connect() as conn:
        admin.set_paused(conn, mp.schema, name, is_paused=is_paused)
    typer.echo(f"{name}: {'paused' if is_paused else 'resumed'}")
