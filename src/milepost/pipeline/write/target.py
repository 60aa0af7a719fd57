"""The table that a pipeline fills: made from the output's columns, or checked against them.

The target's name is a view of the table of one version, so that a rebuild can fill the next
version's table and then swap the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost import db
from milepost.errors import PipelineError, TargetMismatch, TargetTaken

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.pipeline.sinks import TableName
    from milepost.pipeline.write.column_types import Column

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

    conn: Connection
    milepost_schema: str
    pipeline: CheckpointKey
    schema: str
    view: str
    table: str
    shown: str | None  # the table that the view shows; None if there is no view yet

    @property
    def qualified(self) -> str:
        """For a regclass parameter."""
        return ".".join('"' + name.replace('"', '""') + '"' for name in (self.schema, self.table))

    def prepare(self, columns: Sequence[Column], key: Sequence[str]) -> None:
        """Afterwards the table exists with these columns, or nothing has changed. The view is made
        for the active version only. For other versions a rebuild swaps it."""
        view = {"target_schema": self.schema, "view_name": self.view}
        with self.conn.transaction():
            self._ask("target_lock", **view)
            if rows := self._ask("target_columns", **self._table):
                self._check_columns(columns, rows)
                self._check_key(key)
            else:
                names, types = [c.name for c in columns], [c.type for c in columns]
                created = {"columns": names, "types": types, "key_columns": list(key)}
                self._ask("create_target", **self._table, **created)
            if self.shown is None and self._is_active():
                self._ask("show_target", **view, table_name=self.table)

    def _is_active(self) -> bool:
        key = self.pipeline
        rows = self._ask("pipeline_is_active", pipeline=key.processor, version=key.version)
        return any(is_active for (is_active,) in rows)

    def _check_columns(
        self, columns: Sequence[Column], found: Sequence[tuple[str, str, bool]]
    ) -> None:
        """Name the first column that does not fit. The table may have other columns if they are
        optional."""
        types = {name: type_ for name, type_, _ in found}
        for column in columns:
            if types.get(column.name) != column.type:
                raise self._mismatch(column.name, column.type, types.get(column.name))
        given = {column.name for column in columns}
        for name, type_, is_required in found:
            if is_required and name not in given:
                raise self._mismatch(name, None, f"{type_} not null")

    def _mismatch(self, column: str, wanted: str | None, found: str | None) -> TargetMismatch:
        table = f"{self.schema}.{self.table}"
        return TargetMismatch(self.pipeline.processor, table, column, wanted, found=found)

    def _check_key(self, key: Sequence[str]) -> None:
        if not key or self._ask("target_has_key", **self._table, key_columns=sorted(key))[0][0]:
            return
        raise PipelineError(
            self.pipeline.processor,
            f"the table {self.schema}.{self.table} has no unique index on ({', '.join(key)}), "
            "which its key needs. Nothing was written. Make one, or raise the pipeline's version: "
            "a new version gets a new table.",
        )

    @property
    def _table(self) -> dict[str, str]:
        return {"target_schema": self.schema, "table_name": self.table}

    def _ask(self, query: str, **parameters: Any) -> list[Any]:
        return db.fetch_all(self.conn, self.milepost_schema, query, **parameters)


def find_target(
    conn: Connection, pipeline: CheckpointKey, name: TableName, milepost_schema: str
) -> Target:
    """The target, made or not. Refuses a name that belongs to something else."""
    rows = db.fetch_all(
        conn, milepost_schema, "target_relation", target_schema=name.schema, name=name.name
    )
    if not rows:
        where = f"schema {name.schema!r}" if name.schema else "schema of the search_path"
        raise PipelineError(pipeline.processor, f"there is no {where} for its table {name.name!r}.")
    schema, kind, shown = rows[0]
    table = name.versioned(pipeline.version)
    if kind is not None and kind != "v":
        found = _KINDS.get(kind, "something else")
        raise TargetTaken(pipeline.processor, f"{schema}.{name.name}", table, found)
    return Target(
        conn=conn,
        milepost_schema=milepost_schema,
        pipeline=pipeline,
        schema=schema,
        view=name.name,
        table=table,
        shown=shown,
    )
