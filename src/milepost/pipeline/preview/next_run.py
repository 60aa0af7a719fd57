"""What the next run of a pipeline would do: which messages it would read, from where, and what it
would change in the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.checkpoints import CheckpointKey
from milepost.errors import OtherVersionActive, PipelineError, describe
from milepost.log import start_position
from milepost.pipeline.preview.output import (
    DEFAULT_LAST,
    failures_explained,
    last_messages,
    output_of,
    reading,
    versions_of,
)
from milepost.pipeline.source import Planner, Range
from milepost.pipeline.versions import active_of, version_to_run, version_to_write
from milepost.pipeline.write import Fit, fit_of

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.run import Setup
    from milepost.pipeline.versions import Version
    from milepost.pipeline.write import TargetNow
    from milepost.records import Position


@dataclass(frozen=True, slots=True)
class Plan:
    """`version`: that a driver would write; if `needs_rebuild`, that a rebuild would. `archived`
    and `in_table`: about how many messages are left to read, selected or not, in files and only in
    PostgreSQL. `batches`: at most. `refused`: why a run would fail."""

    name: str
    sink: str
    topics: tuple[str, ...] | None
    types: tuple[str, ...] | None
    code_version: int
    version: int
    active_version: int | None
    after: Position
    horizon: Position
    archived: int
    in_table: int
    batches: int
    target: str | None
    table: str | None
    shown: str | None
    columns_now: dict[str, str]
    columns_after: dict[str, str]
    changes: tuple[str, ...]
    needs_rebuild: bool
    refused: str | None


def plan(setup: Setup) -> Plan:
    setup = reading(setup)
    source = setup.source(setup.options.max_messages_per_batch)
    with setup.connected("milepost plan") as conn, closing(Planner(source)) as planner:
        return _plan(setup, conn, planner)


def _plan(setup: Setup, conn: Connection, planner: Planner) -> Plan:
    options, known = setup.options, versions_of(conn, setup)
    version, other = version_to_write(options, known), _other_version(options, known)
    after = _after(conn, setup, known, version)
    horizon = planner.horizon()
    archived, in_table = planner.located(Range(after, horizon))
    fit = _fit(setup, conn, planner, version)
    refused = other or fit.refused
    active, target = active_of(known), fit.target
    return Plan(
        name=options.name,
        sink=options.sink.describe(),
        topics=None if options.topics is None else tuple(options.topics),
        types=None if options.types is None else tuple(options.types),
        code_version=options.code,
        version=version,
        active_version=None if active is None else active.version,
        after=after,
        horizon=horizon,
        archived=archived,
        in_table=in_table,
        batches=-(-(archived + in_table) // options.max_messages_per_batch),
        target=None if target is None else target.view,
        table=None if target is None else target.table,
        shown=None if target is None else target.shown,
        columns_now={} if target is None else target.columns,
        columns_after={column.name: column.type for column in fit.stored or fit.columns},
        changes=() if refused else tuple(changes(options, known, version, fit)),
        needs_rebuild=other is not None,
        refused=None if refused is None else str(refused),
    )


def _other_version(options: PipelineOptions, known: Sequence[Version]) -> OtherVersionActive | None:
    try:
        version_to_run(options, known)
    except OtherVersionActive as other:
        return other
    return None


def _after(conn: Connection, setup: Setup, known: Sequence[Version], version: int) -> Position:
    found = next((v.checkpoint for v in known if v.version == version), None)
    return found or start_position(conn, setup.options.start_from, setup.schema)


def _fit(setup: Setup, conn: Connection, planner: Planner, version: int) -> Fit:
    """Of the output for the last messages: the columns of a pivot are those of its messages."""
    options, chosen = setup.options, last_messages(conn, planner, DEFAULT_LAST)
    try:
        with failures_explained(options):
            output = output_of(setup, planner, chosen.range).schema
    except PipelineError as failed:
        return Fit(refused=failed)
    except Exception as failed:  # noqa: BLE001 - of the user's code: the other plans are shown
        return Fit(refused=PipelineError(options.name, f"its function raised {describe(failed)}"))
    key = CheckpointKey(options.name, version)
    return fit_of(conn, key, options.sink, output, setup.schema)


def changes(
    options: PipelineOptions, known: Sequence[Version], version: int, fit: Fit
) -> Iterator[str]:
    """What a run would change beside the rows, in the order in which it would. Pure."""
    active = active_of(known)
    if version not in [v.version for v in known]:
        yield f"registers version {version}"
    if options.table is None and active is not None and active.version != version:
        yield f"runs version {version} in place of version {active.version}"
    if fit.target is not None:
        yield from _of_target(fit.target, fit)


def _of_target(target: TargetNow, fit: Fit) -> Iterator[str]:
    if fit.changes is None:
        listed = ", ".join(f"{column.name} {column.type}" for column in fit.stored)
        yield f"creates the table {target.table} ({listed})"
    else:
        for column in fit.changes.added:
            yield f"adds the column {column.name} {column.type} to {target.table}"
        for column in fit.changes.widened:
            before = target.columns[column.name]
            where = f"{column.name} of {target.table}"
            yield f"changes the column {where} from {before} to {column.type}"
    if target.shown is None:
        yield f"creates the view {target.view} of {target.table}"
