"""The table that a pipeline fills: made from the output's columns, or checked against them.

The target's name is a view of the table of one version, so that a rebuild can fill the next
version's table and then swap the view.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg

from milepost import db
from milepost.errors import (
    NotPermitted,
    PipelineError,
    TargetMismatch,
    TargetNotChanged,
    TargetTaken,
)
from milepost.pipeline.write.evolution import Changes, Existing, Misfit, changes_for

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.pipeline.sinks import TableName
    from milepost.pipeline.write.column_types import Column

MOST_TRIES = 60
LET_PASS_SECONDS = 1.0
log = logging.getLogger("milepost.pipelines")
# Why the server refuses to change a table. Its own message says what else uses it.
_REFUSALS = (pg.DependentObjectsStillExist, pg.FeatureNotSupported, NotPermitted)
_KINDS = {
    "r": "a table",
    "p": "a partitioned table",
    "m": "a materialized view",
    "f": "a foreign table",
    "i": "an index",
    "S": "a sequence",
    "c": "a type",
}


class _ReadMeanwhile(Exception):
    """The table was not locked in time."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes


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
    most_tries: int = MOST_TRIES  # to lock a table that must change
    let_pass_seconds: float = LET_PASS_SECONDS  # how long others may lock it before the next

    @property
    def qualified(self) -> str:
        """For a regclass parameter."""
        return ".".join('"' + name.replace('"', '""') + '"' for name in (self.schema, self.table))

    def prepare(
        self, columns: Sequence[Column], key: Sequence[str], *, is_history: bool = False
    ) -> None:
        """Afterwards the table exists with these columns, or nothing has changed. The view is made
        for the active version only. For other versions a rebuild swaps it. Waits for transactions
        that read a table that must change, and lets other readers pass meanwhile."""
        for attempt in range(1, self.most_tries + 1):
            try:
                with self.conn.transaction():
                    self._prepare(columns, key, is_history=is_history)
            except _ReadMeanwhile as waited:
                if attempt == self.most_tries:
                    raise self._not_changed(
                        waited.changes, "a transaction that reads it, or a backup, does not end"
                    ) from waited.__cause__
                time.sleep(self.let_pass_seconds)
            else:
                return

    def _prepare(self, columns: Sequence[Column], key: Sequence[str], *, is_history: bool) -> None:
        self._ask("target_lock", target_schema=self.schema, view_name=self.view)
        changes = self.check(columns, key)
        if changes:
            self._change(changes)
        if changes is None:
            names, types = [c.name for c in columns], [c.type for c in columns]
            created = {"columns": names, "types": types, "key_columns": list(key)}
            self._ask("create_target", **self._table, **created)
            if is_history:
                self._ask("mark_history", **self._table)
        if self.shown is None and self._is_active():
            self._ask("show_target", **self._table, view_name=self.view)

    def check(self, columns: Sequence[Column], key: Sequence[str]) -> Changes | None:
        """What has to change in the table for these columns. None if there is no table. Raises if
        it does not fit. Writes nothing."""
        existing = self.columns()
        if not existing:
            return None
        changes = self._changes(columns, existing, key)
        self._check_key(key)
        return changes

    def columns(self) -> list[Existing]:
        """Of the table; none if there is no table."""
        return [Existing(*row) for row in self._ask("target_columns", **self._table)]

    def _is_active(self) -> bool:
        key = self.pipeline
        rows = self._ask("pipeline_is_active", pipeline=key.processor, version=key.version)
        return any(is_active for (is_active,) in rows)

    def _changes(
        self, columns: Sequence[Column], existing: Sequence[Existing], key: Sequence[str]
    ) -> Changes:
        """Names the first column that does not fit."""
        changes = changes_for(columns, existing, fixed=key)
        if not isinstance(changes, Misfit):
            return changes
        raise TargetMismatch(
            self.pipeline.processor,
            self._name,
            changes.column,
            changes.wanted,
            found=changes.found,
            renamed=changes.renamed,
        )

    def _change(self, changes: Changes) -> None:
        self._is_active()  # its lock: no swap changes meanwhile what the view shows
        try:
            self._ask(
                "evolve_target",
                **self._table,
                view_name=self.view,
                added_columns=[column.name for column in changes.added],
                added_types=[column.type for column in changes.added],
                widened_columns=[column.name for column in changes.widened],
                widened_types=[column.type for column in changes.widened],
            )
        except pg.LockNotAvailable as error:
            raise _ReadMeanwhile(changes) from error
        except _REFUSALS as error:
            raise self._not_changed(changes, _reason(error)) from error
        log.info("pipeline=%s table=%s gets=%s", self.pipeline.processor, self._name, changes)

    def _not_changed(self, changes: Changes, reason: str) -> TargetNotChanged:
        return TargetNotChanged(self.pipeline.processor, self._name, str(changes), reason)

    @property
    def _name(self) -> str:
        return f"{self.schema}.{self.table}"

    def _check_key(self, key: Sequence[str]) -> None:
        if not key or self._ask("target_has_key", **self._table, key_columns=sorted(key))[0][0]:
            return
        raise PipelineError(
            self.pipeline.processor,
            f"the table {self._name} has no unique index on ({', '.join(key)}), "
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


def _reason(error: psycopg.Error | NotPermitted) -> str:
    if isinstance(error, NotPermitted):
        return f"its role may not change it ({error.what})"
    said = [error.diag.message_primary, error.diag.message_detail]
    return f"the server refused it ({'; '.join(words for words in said if words)})"
