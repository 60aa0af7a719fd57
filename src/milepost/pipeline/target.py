"""The table that a pipeline fills: made from the output's columns, or checked against them.

Its name is a view over the table of one version, so that a rebuild can fill the next version
beside it and then swap the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost import sql
from milepost.db import one, translated
from milepost.errors import PipelineError, TargetMismatch, TargetTaken

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.pipeline.columns import Column
    from milepost.pipeline.sinks import TableName

_KINDS = {
    "r": "a table",
    "p": "a partitioned table",
    "m": "a materialized view",
    "f": "a foreign table",
    "i": "an index",
    "S": "a sequence",
    "c": "a type",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A versioned table and the view that shows it, or another version."""

    pipeline: CheckpointKey
    schema: str
    view: str
    table: str
    shown: str | None  # the table that the view shows; None where there is no view yet

    @property
    def qualified(self) -> str:
        """For a regclass parameter."""
        return ".".join('"' + name.replace('"', '""') + '"' for name in (self.schema, self.table))


def find_target(
    conn: Connection, pipeline: CheckpointKey, name: TableName, milepost_schema: str
) -> Target:
    """Where the target is or will be. Refuses a name that belongs to something else."""
    parameters = {"target_schema": name.schema, "name": name.name}
    row = conn.execute(sql.query("target_relation", milepost_schema), parameters).fetchone()
    if row is None:
        where = f"schema {name.schema!r}" if name.schema else "schema of the search_path"
        raise PipelineError(pipeline.processor, f"there is no {where} for its table {name.name!r}.")
    schema, kind, shown = row
    table = name.versioned(pipeline.version)
    if kind is not None and kind != "v":
        found = _KINDS.get(kind, "something else")
        raise TargetTaken(pipeline.processor, f"{schema}.{name.name}", table, found)
    return Target(pipeline, schema, name.name, table, shown)


def prepare_target(
    conn: Connection,
    target: Target,
    columns: Sequence[Column],
    key: Sequence[str],
    milepost_schema: str,
) -> None:
    """The table is there with these columns afterwards, or nothing has changed. The view is made
    with the active version; others wait for a rebuild to swap it."""
    with translated(milepost_schema), conn.transaction():
        _lock(conn, target, milepost_schema)
        found = _found_columns(conn, target, milepost_schema)
        if found:
            check_columns(target, columns, found)
            _check_key(conn, target, key, milepost_schema)
        else:
            _create(conn, target, columns, key, milepost_schema)
        if target.shown is None and _is_active(conn, target, milepost_schema):
            _show(conn, target, milepost_schema)


def _lock(conn: Connection, target: Target, milepost_schema: str) -> None:
    parameters = {"target_schema": target.schema, "view_name": target.view}
    conn.execute(sql.query("target_lock", milepost_schema), parameters)


def _is_active(conn: Connection, target: Target, milepost_schema: str) -> bool:
    key = target.pipeline
    parameters = {"pipeline": key.processor, "version": key.version}
    row = conn.execute(sql.query("pipeline_is_active", milepost_schema), parameters).fetchone()
    return row is not None and bool(row[0])


def _show(conn: Connection, target: Target, milepost_schema: str) -> None:
    parameters = {
        "target_schema": target.schema,
        "view_name": target.view,
        "table_name": target.table,
    }
    conn.execute(sql.query("show_target", milepost_schema), parameters)


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column of a table that is there."""

    name: str
    type: str
    is_required: bool


def check_columns(target: Target, columns: Sequence[Column], found: Sequence[FoundColumn]) -> None:
    """Name the first column that does not fit. Columns of the table alone may be there, if rows
    can do without them."""
    types = {column.name: column.type for column in found}
    for column in columns:
        if types.get(column.name) != column.type:
            raise _mismatch(target, column.name, column.type, types.get(column.name))
    given = {column.name for column in columns}
    for required in found:
        if required.is_required and required.name not in given:
            raise _mismatch(target, required.name, None, f"{required.type} not null")


def _mismatch(target: Target, column: str, wanted: str | None, found: str | None) -> TargetMismatch:
    table = f"{target.schema}.{target.table}"
    return TargetMismatch(target.pipeline.processor, table, column, wanted, found)


def _found_columns(conn: Connection, target: Target, milepost_schema: str) -> list[FoundColumn]:
    rows = conn.execute(sql.query("target_columns", milepost_schema), _of(target)).fetchall()
    return [FoundColumn(*row) for row in rows]


def _check_key(conn: Connection, target: Target, key: Sequence[str], milepost_schema: str) -> None:
    if not key:
        return
    parameters = _of(target) | {"key_columns": sorted(key)}
    row = conn.execute(sql.query("target_has_key", milepost_schema), parameters).fetchone()
    if not one(row)[0]:
        raise PipelineError(
            target.pipeline.processor,
            f"the table {target.schema}.{target.table} has no unique index on "
            f"({', '.join(key)}), which its key needs. Nothing was written. Make one, or raise the "
            "pipeline's version: a new one gets a new table.",
        )


def _create(
    conn: Connection,
    target: Target,
    columns: Sequence[Column],
    key: Sequence[str],
    milepost_schema: str,
) -> None:
    parameters = _of(target) | {
        "columns": [column.name for column in columns],
        "types": [column.type for column in columns],
        "key_columns": list(key),
    }
    conn.execute(sql.query("create_target", milepost_schema), parameters)


def _of(target: Target) -> dict[str, Any]:
    return {"target_schema": target.schema, "table_name": target.table}
