"""The sink History: every row is a version of what has its key, valid from a time on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from milepost.errors import InvalidOutput
from milepost.pipeline.sinks import VALID_FROM, VALID_TO, History
from milepost.pipeline.write.merge import Merge, Plan, by_names, named

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.write.column_types import Column
    from milepost.pipeline.write.staging import Staged

# Types whose values have one order, and of which every value is a point in it.
_TIMES = ("timestamp", "date", "smallint", "integer", "bigint", "numeric")


def history_plan(pipeline: str, sink: History, columns: Sequence[Column]) -> Plan:
    """Refuses columns that are missing, or have the names of those that the history makes."""
    by_name = by_names(pipeline, columns, (*sink.key, sink.at), sink.delete)
    at = by_name[sink.at]
    if not at.type.startswith(_TIMES) or at.is_array:
        expected = "expected a timestamp, a date, an integer or a decimal"
        raise InvalidOutput(pipeline, sink.at, f"is {at.type}: {expected}. Cast it.")
    own = (*sink.key, sink.at, sink.delete)
    values = [column for column in columns if column.name not in own]
    for column in values:
        if column.name in (VALID_FROM, VALID_TO):
            raise InvalidOutput(pipeline, column.name, "is a column that History makes. Rename it.")
    key = [by_name[name] for name in sink.key]
    parameters = {
        **named("key", key),
        **named("value", values),
        "at_column": at.name,
        "at_type": at.type,
        "delete_column": sink.delete,
    }
    explain = partial(_explain, pipeline, sink)
    merge = Merge("merge_history", parameters, columns, explain, is_ordered=True)
    times = [replace(at, name=name) for name in (VALID_FROM, VALID_TO)]
    return Plan(merge, [*key, *values, *times], [*sink.key, VALID_FROM])


def _explain(
    pipeline: str, sink: History, error: psycopg.Error, _conn: Connection, _staged: Staged
) -> InvalidOutput | None:
    if not isinstance(error, pg.NotNullViolation):
        return None
    column = error.diag.column_name
    if column == VALID_FROM:
        return InvalidOutput(pipeline, sink.at, "is null in some row, but a version begins at it.")
    if column in sink.key:
        return InvalidOutput(pipeline, column, "is null in some row, but it is part of the key.")
    return None
