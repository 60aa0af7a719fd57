"""The whole log for any Spark job: the archive and what is only in PostgreSQL, as one DataFrame."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost import sql
from milepost.log import Selection
from milepost.pipeline.frames.range_frame import range_frame
from milepost.pipeline.names import stored_columns, wanted_columns
from milepost.pipeline.source import Conditions, Planner, SourceOptions, complete_conninfo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from milepost.log import Start
    from milepost.records import Position

End: TypeAlias = "Position | datetime | Literal['end']"


def history(
    spark: SparkSession,
    url: str | None = None,
    *,
    topics: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    start: Start = "beginning",
    end: End = "end",
    columns: Sequence[str] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> DataFrame:
    """The messages after `start`, up to and including `end`, as they are when this is called. Of
    times: recorded at `start` or later, and before `end`.

    Spark reads the files of the archive by itself, and fetches the rest from PostgreSQL. `columns`
    may name `content`, the JSON as a VARIANT. Without `url`, the environment says where the log is.
    """
    Selection(topics, types)  # refuses a string
    wanted = wanted_columns(columns)
    options = SourceOptions(
        conninfo=complete_conninfo(url, os.environ),
        schema=sql.check_schema_name(schema),
        conditions=Conditions(topics=_set(topics), types=_set(types)),
        start=_start(start),
        end="latest" if end == "end" else end,
        columns=stored_columns(wanted),
    )
    with closing(Planner(options)) as planner:
        return range_frame(spark, planner, planner.batch_range(), wanted)


def _start(start: Start) -> Position | datetime | Literal["earliest", "latest"]:
    if start == "beginning":
        return "earliest"
    if start == "end":
        return "latest"
    if isinstance(start, str):
        raise ValueError(  # noqa: TRY004 - a wrong word
            f"start is {start!r}: expected 'beginning', 'end', a Position or a datetime."
        )
    return start


def _set(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
