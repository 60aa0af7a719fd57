"""The output of a pipeline's function for some messages of the log, and whether its sink would take
it. No version is registered, nothing is staged, and no directory of Spark is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from milepost import db
from milepost.checkpoints import CheckpointKey
from milepost.errors import InvalidOption, InvalidOutput, PipelineError
from milepost.pipeline.frames import is_unreadable_file
from milepost.pipeline.run import range_output
from milepost.pipeline.sinks import History, Upsert
from milepost.pipeline.source import Planner, Range, tail
from milepost.pipeline.spark.failures import explained
from milepost.pipeline.versions import load_versions, version_to_write
from milepost.pipeline.write import fit_of
from milepost.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Column as SparkColumn

    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.run import Setup
    from milepost.pipeline.versions import Version
    from milepost.pipeline.write import Column, Fit
    from milepost.records import Position

Place: TypeAlias = "Position | datetime"
DEFAULT_LAST = 1000
DEFAULT_LIMIT = 20


@dataclass(frozen=True, slots=True)
class OutputColumn:
    name: str
    spark_type: str
    type: str | None  # in PostgreSQL; None where it does not get there


@dataclass(frozen=True, slots=True)
class Preview:
    """`messages`: how many the function got; about, if a range was given. `rows`: the first ones of
    `row_count`. `refused`: why the sink would not take them."""

    pipeline: str
    sink: str
    after: Position
    last: Position
    messages: int
    columns: tuple[OutputColumn, ...]
    rows: list[dict[str, Any]]
    row_count: int
    refused: str | None


def preview(
    setup: Setup,
    *,
    last: int = DEFAULT_LAST,
    after: Place | None = None,
    to: Place | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Preview:
    """Of the last messages that it selects, or of those after a position or time. `limit`: of the
    rows that are returned."""
    setup = reading(setup)
    source = setup.source(setup.options.max_messages_per_batch)
    source = replace(source, start=after or "earliest", end=to or "latest")
    with setup.connected("milepost try") as conn, closing(Planner(source)) as planner:
        chosen = last_messages(conn, planner, last) if after is None else _given(planner)
        looking = partial(_look, setup, conn, planner, chosen, limit)
        try:
            return looking(in_python=False)
        except PipelineError as error:
            # Python finds another file, or the rows in the table, or says what is wrong.
            if error.__cause__ is None or not is_unreadable_file(error.__cause__):
                raise
            return looking(in_python=True)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A range, and about how many messages of it are selected."""

    range: Range
    messages: int


def last_messages(conn: Connection, planner: Planner, count: int) -> Chosen:
    options, newest = planner.options, planner.end()
    found = tail(conn, options.schema, options.conditions, newest, count)
    return Chosen(Range(found.after, newest), found.messages)


def _given(planner: Planner) -> Chosen:
    range_ = Range(planner.start(), planner.end())
    if range_.last < range_.after:
        raise InvalidOption("to", f"is {range_.last}, which is before {range_.after}.")
    return Chosen(range_, planner.about(range_))


def reading(setup: Setup) -> Setup:
    """With connections that cannot write, also those of executors."""
    return replace(setup, runtime=Runtime(db.read_only(setup.url), setup.schema))


def output_of(
    setup: Setup, planner: Planner, range_: Range, *, in_python: bool = False
) -> DataFrame:
    """What the function makes of a range. With state, too, as one batch."""
    with failures_explained(setup.options):
        return range_output(setup, planner, range_, in_python=in_python)


@contextmanager
def failures_explained(options: PipelineOptions) -> Iterator[None]:
    """What the function raises, or Spark while it computes the output, as a run says it."""
    try:
        yield
    except Exception as error:
        meaning = explained(error, options)
        if meaning is error:
            raise
        raise meaning from error


def versions_of(conn: Connection, setup: Setup) -> list[Version]:
    return load_versions(conn, setup.options.name, setup.schema)


def _look(
    setup: Setup,
    conn: Connection,
    planner: Planner,
    chosen: Chosen,
    limit: int,
    *,
    in_python: bool,
) -> Preview:
    options = setup.options
    version = version_to_write(options, versions_of(conn, setup))
    output = output_of(setup, planner, chosen.range, in_python=in_python).persist()
    key = CheckpointKey(options.name, version)
    found = fit_of(conn, key, options.sink, output.schema, setup.schema)
    try:
        with failures_explained(options):
            count = output.count()
            rows = [row.asDict(recursive=True) for row in output.limit(limit).collect()]
            refused = found.refused or _unclear(options, output, found)
    finally:
        output.unpersist()
    return Preview(
        pipeline=options.name,
        sink=options.sink.describe(),
        after=chosen.range.after,
        last=chosen.range.last,
        messages=chosen.messages,
        columns=_columns(output, found),
        rows=rows,
        row_count=count,
        refused=None if refused is None else str(refused),
    )


def _columns(output: DataFrame, fit: Fit) -> tuple[OutputColumn, ...]:
    types: Mapping[str, str] = {column.name: column.type for column in fit.columns}
    return tuple(
        OutputColumn(field.name, field.dataType.simpleString(), types.get(field.name))
        for field in output.schema.fields
    )


def _unclear(options: PipelineOptions, output: DataFrame, fit: Fit) -> InvalidOutput | None:
    """Keys that a merge of all these rows in one batch would refuse."""
    sink = options.sink
    if not isinstance(sink, Upsert | History):
        return None
    for name in (*sink.key, *([sink.at] if isinstance(sink, History) else [])):
        if output.where(_column(name).isNull()).head(1):
            return InvalidOutput(
                options.name, name, "is null in some row, but it says which row is meant."
            )
    if isinstance(sink, History) or not _must_be_unique(sink, fit.columns):
        return None
    keys = output.groupBy(*map(_column, sink.key)).count()
    twice = keys.where(f.col("count") > 1).head(1)
    if not twice:
        return None
    values = ", ".join(str(twice[0][number]) for number in range(len(sink.key)))
    return InvalidOutput(
        options.name,
        None,
        f"has more than one row with the key ({', '.join(sink.key)}) = ({values}), and columns to "
        "set or a deletion: if they are in one batch, it is not clear which row to use. Group by "
        "the key.",
    )


def _must_be_unique(sink: Upsert, columns: Sequence[Column]) -> bool:
    """Where columns are set, or rows deleted; if Spark compares keys as the server does."""
    keys = [column for column in columns if column.name in sink.key]
    has_set = any(column.name not in (*sink.key, *sink.add) for column in columns)
    return has_set and all(column.is_equal_as_in_spark for column in keys)


def _column(name: str) -> SparkColumn:
    quoted = name.replace("`", "``")
    return f.col(f"`{quoted}`")
