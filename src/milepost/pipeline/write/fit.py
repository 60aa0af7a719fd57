"""How an output fits its sink, found out without writing: the checks of a merge, and what the
target has now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milepost.errors import PipelineError
from milepost.pipeline.sinks import Files, TableName, ToLog, ToQueue
from milepost.pipeline.write.column_types import columns_of
from milepost.pipeline.write.target import find_target
from milepost.pipeline.write.to_items import item_merge
from milepost.pipeline.write.to_table import table_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.pipeline.sinks import Sink, TableSink
    from milepost.pipeline.write.column_types import Column
    from milepost.pipeline.write.evolution import Changes
    from milepost.pipeline.write.target import Target


@dataclass(frozen=True, slots=True)
class TargetNow:
    """The target as it is."""

    view: str
    table: str
    shown: str | None  # the table that the view shows; None: there is no view
    columns: dict[str, str]  # of the table, with their types; empty: there is no table


@dataclass(frozen=True, slots=True)
class Fit:
    """`columns`: of the output, as PostgreSQL would get them; none for files. `stored`: those of
    the table afterwards. `changes`: of a table that is there. `refused`: what a run would raise."""

    columns: tuple[Column, ...] = ()
    target: TargetNow | None = None
    refused: PipelineError | None = None
    stored: tuple[Column, ...] = ()
    changes: Changes | None = None


def fit_of(
    conn: Connection, key: CheckpointKey, sink: Sink, output: StructType, schema: str
) -> Fit:
    """`key`: the version that a run would write."""
    if isinstance(sink, Files):
        return Fit()
    try:
        columns = tuple(columns_of(key.processor, output))
    except PipelineError as refused:
        return Fit(refused=refused)
    if isinstance(sink, ToLog | ToQueue):
        return Fit(columns, refused=_refusal(lambda: item_merge(key.processor, sink, columns)))
    return _table_fit(conn, key, sink, columns, schema)


def _table_fit(
    conn: Connection, key: CheckpointKey, sink: TableSink, columns: Sequence[Column], schema: str
) -> Fit:
    try:
        target = find_target(conn, key, TableName.parse(sink.table), schema)
    except PipelineError as refused:
        return Fit(tuple(columns), refused=refused)
    found = Fit(tuple(columns), _now(target))
    try:
        plan = table_plan(key.processor, sink, columns, schema)
        found = replace(found, stored=tuple(plan.stored))
        return replace(found, changes=target.check(plan.stored, plan.key))
    except PipelineError as refused:
        return replace(found, refused=refused)


def _now(target: Target) -> TargetNow:
    return TargetNow(
        view=f"{target.schema}.{target.view}",
        table=f"{target.schema}.{target.table}",
        shown=target.shown,
        columns={column.name: column.type for column in target.columns()},
    )


def _refusal(check: Callable[[], object]) -> PipelineError | None:
    try:
        check()
    except PipelineError as refused:
        return refused
    return None
