"""The sink ToQueue: rows become jobs in the transaction that also moves the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from milepost import sql
from milepost.errors import InvalidOutput
from milepost.pipeline.columns import Column

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.staging import Staged
    from milepost.pipeline.sums import Sums

_COLUMNS = {
    "content": Column("content", "text"),
    "channel": Column("channel", "text"),
    "unique_key": Column("unique_key", "text"),
    "run_at": Column("run_at", "timestamp with time zone"),
    "priority": Column("priority", "integer"),
    "max_attempts": Column("max_attempts", "integer"),
}


def check_jobs(pipeline: str, columns: Sequence[Column]) -> None:
    """Whether the columns make jobs."""
    if "content" not in {column.name for column in columns}:
        raise InvalidOutput(pipeline, "content", "is missing: a job needs it.")
    for column in columns:
        expected = _COLUMNS.get(column.name)
        if expected is None:
            raise InvalidOutput(
                pipeline,
                column.name,
                f"is no part of a job ({', '.join(_COLUMNS)}). Drop it, or put it into content.",
            )
        is_json = column.name == "content" and column.conversion == "json"
        if column.type != expected.type and not is_json:
            raise InvalidOutput(
                pipeline, column.name, f"is {column.type}: expected {expected.type}. Cast it."
            )


@dataclass(frozen=True, slots=True)
class JobMerge:
    """In the order of the partitions and of the rows in each."""

    pipeline: str
    channel: str
    schema: str

    @property
    def staged(self) -> Sequence[Column]:
        return list(_COLUMNS.values())

    @property
    def is_ordered(self) -> bool:
        return True

    @property
    def sums(self) -> Sums | None:
        return None

    def run(self, conn: Connection, staging: str, staged: Staged) -> None:
        parameters = {
            "staging": staging,
            "default_channel": self.channel,
            "attempts": staged.attempts,
        }
        conn.execute(sql.query("merge_jobs", self.schema), parameters)

    def explain(
        self,
        error: psycopg.Error,
        conn: Connection,  # noqa: ARG002
        staging: str,  # noqa: ARG002
        staged: Staged,  # noqa: ARG002
    ) -> InvalidOutput | None:
        said = error.diag.message_primary
        if isinstance(error, pg.InvalidTextRepresentation):
            return InvalidOutput(self.pipeline, "content", f"is not JSON in some row ({said}).")
        if isinstance(error, pg.NotNullViolation | pg.CheckViolation | pg.NumericValueOutOfRange):
            return InvalidOutput(self.pipeline, error.diag.column_name, f"is no job: {said}.")
        return None
