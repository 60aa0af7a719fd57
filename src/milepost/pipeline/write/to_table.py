"""The sinks Append and Upsert: rows go into the table of a version."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg

from milepost import db
from milepost.errors import InvalidOutput
from milepost.pipeline.sinks import TableName, TableSink, Upsert
from milepost.pipeline.write.merge import Merge
from milepost.pipeline.write.presum import Sums
from milepost.pipeline.write.spark_sums import spark_sums
from milepost.pipeline.write.target import find_target

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.pipeline.write.column_types import Column
    from milepost.pipeline.write.staging import Staged


def table_merge(
    conn: Connection,
    pipeline: CheckpointKey,
    sink: TableSink,
    columns: Sequence[Column],
    schema: str,
) -> Merge:
    """Makes the target, or checks it against the columns."""
    upsert = sink if isinstance(sink, Upsert) else None
    shares = {} if upsert is None else upsert_shares(pipeline.processor, upsert, columns)
    target = find_target(conn, pipeline, TableName.parse(sink.table), schema)
    target.prepare(columns, () if upsert is None else upsert.key)
    parameters: dict[str, Any] = {"target": target.qualified}
    if upsert is None:
        parameters |= {"columns": _names(columns), "types": [column.type for column in columns]}
        return Merge("merge_append", parameters, columns)
    for share, found in shares.items():
        parameters[f"{share}_columns"] = _names(found)
        parameters[f"{share}_types"] = [column.type for column in found]
    staged = [column for found in shares.values() for column in found]
    explain = partial(_explain, pipeline.processor, schema, list(upsert.key))
    if shares["set"]:  # a key that comes twice must be refused
        return Merge("merge_upsert", parameters, staged, explain)
    sums = Sums(tuple(_names(shares["key"])), tuple(_names(shares["add"])))
    in_spark = spark_sums(shares["key"], shares["add"])
    return Merge("merge_upsert", parameters, staged, explain, sums=sums, spark_sums=in_spark)


def upsert_shares(
    pipeline: str, sink: Upsert, columns: Sequence[Column]
) -> dict[str, list[Column]]:
    """The columns of the key, those to set and those to add. Refuses columns that are missing,
    unused, or cannot be added."""
    by_name = {column.name: column for column in columns}
    others = [name for name in by_name if name not in (*sink.key, *sink.add)]
    chosen = others if sink.set is None else list(sink.set)
    for name in (*sink.key, *chosen, *sink.add):
        if name not in by_name:
            raise InvalidOutput(pipeline, name, "is missing: the sink names it.")
    if left := [name for name in others if name not in chosen]:
        raise InvalidOutput(
            pipeline, left[0], "is not in the sink's key, set or add. Drop it, or name it there."
        )
    for name in sink.add:
        if not by_name[name].is_number:
            raise InvalidOutput(
                pipeline, name, f"is {by_name[name].type}, which cannot be added up."
            )
    named = {"key": sink.key, "set": chosen, "add": sink.add}
    return {share: [by_name[name] for name in names] for share, names in named.items()}


def _explain(
    pipeline: str,
    schema: str,
    key: list[str],
    error: psycopg.Error,
    conn: Connection,
    staged: Staged,
) -> InvalidOutput | None:
    column = error.diag.column_name
    if isinstance(error, pg.NotNullViolation) and column in key:
        return InvalidOutput(pipeline, column, "is null in some row, but it is part of the key.")
    if not isinstance(error, pg.CardinalityViolation):
        return None
    (values,) = db.fetch_one(conn, schema, "duplicate_key", **staged.parameters(), key_columns=key)
    return InvalidOutput(
        pipeline,
        None,
        f"has more than one row with the key ({', '.join(key)}) = {values} in one batch, and "
        "columns to set: it is not clear which row to use. Group by the key.",
    )


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]
