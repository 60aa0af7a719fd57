"""The sinks that are tables: rows go into the table of a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from milepost import db
from milepost.errors import InvalidOutput
from milepost.pipeline.sinks import Append, History, TableName, TableSink, Upsert
from milepost.pipeline.write.merge import Merge, Plan, by_names, named, names_of
from milepost.pipeline.write.presum import Sums
from milepost.pipeline.write.spark_sums import spark_sums
from milepost.pipeline.write.target import find_target
from milepost.pipeline.write.to_history import history_plan

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
    # What does not fit the sink is refused before the target is made.
    plan = table_plan(pipeline.processor, sink, columns, schema)
    target = find_target(conn, pipeline, TableName.parse(sink.table), schema)
    target.prepare(plan.stored, plan.key, is_history=isinstance(sink, History))
    parameters = {"target": target.qualified, **plan.merge.parameters}
    return replace(plan.merge, parameters=parameters)


def table_plan(pipeline: str, sink: TableSink, columns: Sequence[Column], schema: str) -> Plan:
    """Checks the columns against the sink."""
    if isinstance(sink, Append):
        return Plan(Merge("merge_append", named("", columns), columns), columns)
    if isinstance(sink, History):
        return history_plan(pipeline, sink, columns)
    return _upsert_plan(pipeline, sink, columns, schema)


def _upsert_plan(pipeline: str, sink: Upsert, columns: Sequence[Column], schema: str) -> Plan:
    shares = upsert_shares(pipeline, sink, columns)
    key, set_, add = shares["key"], shares["set"], shares["add"]
    stored = [column for column in columns if column.name != sink.delete]
    parameters = {**named("key", key), **named("set", set_)}
    explain = partial(_explain, pipeline, schema, shares)
    if sink.delete is not None:
        deleting = {**parameters, "delete_column": sink.delete}
        merge = Merge("merge_upsert_or_delete", deleting, columns, explain)
        return Plan(merge, stored, sink.key)
    merge = Merge("merge_upsert", {**parameters, **named("add", add)}, [*key, *set_, *add], explain)
    if set_:  # a key that comes twice must be refused
        return Plan(merge, stored, sink.key)
    sums = Sums(tuple(names_of(key)), tuple(names_of(add)))
    return Plan(replace(merge, sums=sums, spark_sums=spark_sums(key, add)), stored, sink.key)


def upsert_shares(
    pipeline: str, sink: Upsert, columns: Sequence[Column]
) -> dict[str, list[Column]]:
    """The columns of the key, those to set and those to add. Refuses columns that are missing,
    unused, or cannot be added, and a deletion that is not boolean."""
    by_name = by_names(pipeline, columns, (*sink.key, *(sink.set or ()), *sink.add), sink.delete)
    others = [name for name in by_name if name not in (*sink.key, *sink.add, sink.delete)]
    chosen = others if sink.set is None else list(sink.set)
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
    shares: Mapping[str, Sequence[Column]],
    error: psycopg.Error,
    conn: Connection,
    staged: Staged,
) -> InvalidOutput | None:
    key, column = names_of(shares["key"]), error.diag.column_name
    if isinstance(error, pg.NotNullViolation) and column in key:
        return InvalidOutput(pipeline, column, "is null in some row, but it is part of the key.")
    if isinstance(error, pg.NumericValueOutOfRange) and shares["add"]:
        return _too_large(pipeline, shares["add"], str(error.diag.message_primary))
    if not isinstance(error, pg.CardinalityViolation):
        return None
    (values,) = db.fetch_one(conn, schema, "duplicate_key", **staged.parameters(), key_columns=key)
    return InvalidOutput(
        pipeline,
        None,
        f"has more than one row with the key ({', '.join(key)}) = {values} in one batch, and "
        "columns to set or a deletion: it is not clear which row to use. Group by the key.",
    )


def _too_large(pipeline: str, added: Sequence[Column], said: str) -> InvalidOutput:
    """The server names the type that is too small, not the column."""
    wanted = said.split()[0]  # `bigint out of range`, `numeric field overflow`
    found = names_of([each for each in added if each.type.startswith(wanted)]) or names_of(added)
    one_of = "" if len(found) == 1 else f", in one of {', '.join(found)}"
    return InvalidOutput(
        pipeline,
        None if one_of else found[0],
        f"has a sum that its type cannot hold ({said}{one_of}). Cast it to a larger type, such as "
        "decimal(38,0), and raise the pipeline's version: a new version gets a new table.",
    )
