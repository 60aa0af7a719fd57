"""From staging to where a sink's rows belong: one statement in the transaction that also moves the
checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from psycopg import errors as pg

from milepost import sql
from milepost.db import one
from milepost.errors import InvalidOutput
from milepost.pipeline.columns import Column
from milepost.pipeline.jobs import JobMerge, check_jobs
from milepost.pipeline.sinks import PostgresSink, TableName, ToLog, ToQueue, Upsert
from milepost.pipeline.sums import Sums
from milepost.pipeline.target import find_target, prepare_target

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.pipeline.staging import Staged

_MESSAGE_COLUMNS = ("type", "data", "key", "metadata", "topic")


class Merge(Protocol):
    """One for each kind of sink."""

    @property
    def staged(self) -> Sequence[Column]:
        """The columns of staging."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the rows matters."""
        ...

    @property
    def sums(self) -> Sums | None:
        """Where rows of one key may be added up before they are staged: how."""
        ...

    def run(self, conn: Connection, staging: str, staged: Staged) -> None: ...

    def explain(
        self, error: psycopg.Error, conn: Connection, staging: str, staged: Staged
    ) -> InvalidOutput | None:
        """What a refusal of the server's means in the sink's words; asked after the rollback."""
        ...


def prepare_merge(
    conn: Connection,
    pipeline: CheckpointKey,
    sink: PostgresSink,
    columns: Sequence[Column],
    schema: str,
) -> Merge:
    """Check the output against the sink, make or check the target; before anything is written."""
    if isinstance(sink, ToLog):
        check_messages(pipeline.processor, columns)
        return MessageMerge(pipeline.processor, sink.topic, schema)
    if isinstance(sink, ToQueue):
        check_jobs(pipeline.processor, columns)
        return JobMerge(pipeline.processor, sink.channel, schema)
    name = TableName.parse(sink.table)
    if isinstance(sink, Upsert):
        shares = upsert_shares(pipeline.processor, sink, columns)
        target = find_target(conn, pipeline, name, schema)
        prepare_target(conn, target, columns, sink.key, schema)
        return UpsertMerge(pipeline.processor, target.qualified, shares, schema)
    target = find_target(conn, pipeline, name, schema)
    prepare_target(conn, target, columns, (), schema)
    return AppendMerge(target.qualified, tuple(columns), schema)


@dataclass(frozen=True, slots=True)
class AppendMerge:
    """Every row is added."""

    target: str
    columns: tuple[Column, ...]
    schema: str

    @property
    def staged(self) -> Sequence[Column]:
        return self.columns

    @property
    def is_ordered(self) -> bool:
        return False

    @property
    def sums(self) -> Sums | None:
        return None

    def run(self, conn: Connection, staging: str, staged: Staged) -> None:
        parameters = {
            "staging": staging,
            "target": self.target,
            "columns": _names(self.columns),
            "types": _types(self.columns),
            "attempts": staged.attempts,
        }
        conn.execute(sql.query("merge_append", self.schema), parameters)

    def explain(
        self,
        error: psycopg.Error,  # noqa: ARG002 - whatever it is, the server's words say it best
        conn: Connection,  # noqa: ARG002
        staging: str,  # noqa: ARG002
        staged: Staged,  # noqa: ARG002
    ) -> InvalidOutput | None:
        return None


@dataclass(frozen=True, slots=True)
class Shares:
    """What an upsert does with which column."""

    key: tuple[Column, ...]
    set: tuple[Column, ...]
    add: tuple[Column, ...]

    @property
    def all(self) -> tuple[Column, ...]:
        return (*self.key, *self.set, *self.add)


def upsert_shares(pipeline: str, sink: Upsert, columns: Sequence[Column]) -> Shares:
    """Every column in its share. Refuses what is missing, left over, or cannot be added up."""
    by_name = {column.name: column for column in columns}
    others = [name for name in by_name if name not in (*sink.key, *sink.add)]
    chosen = others if sink.set is None else list(sink.set)
    for name in (*sink.key, *chosen, *sink.add):
        if name not in by_name:
            raise InvalidOutput(pipeline, name, "is missing: the sink names it.")
    if left := [name for name in others if name not in chosen]:
        raise InvalidOutput(
            pipeline, left[0], "is none of the sink's key, set or add. Drop it, or name it there."
        )
    for name in sink.add:
        if not by_name[name].is_number:
            raise InvalidOutput(
                pipeline, name, f"is {by_name[name].type}, which cannot be added up."
            )
    return Shares(*(tuple(by_name[n] for n in names) for names in (sink.key, chosen, sink.add)))


@dataclass(frozen=True, slots=True)
class UpsertMerge:
    """Rows are inserted, or change the row that has their key."""

    pipeline: str
    target: str
    shares: Shares
    schema: str

    @property
    def staged(self) -> Sequence[Column]:
        return self.shares.all

    @property
    def is_ordered(self) -> bool:
        return False

    @property
    def sums(self) -> Sums | None:
        """Not with columns to set: a key that comes twice is to be refused."""
        if self.shares.set:
            return None
        return Sums(tuple(_names(self.shares.key)), tuple(_names(self.shares.add)))

    def run(self, conn: Connection, staging: str, staged: Staged) -> None:
        parameters: dict[str, Any] = {
            "staging": staging,
            "target": self.target,
            "attempts": staged.attempts,
        }
        for share in ("key", "set", "add"):
            columns = getattr(self.shares, share)
            parameters |= {f"{share}_columns": _names(columns), f"{share}_types": _types(columns)}
        conn.execute(sql.query("merge_upsert", self.schema), parameters)

    def explain(
        self, error: psycopg.Error, conn: Connection, staging: str, staged: Staged
    ) -> InvalidOutput | None:
        if isinstance(error, pg.CardinalityViolation):
            return self._duplicate(conn, staging, staged)
        column = error.diag.column_name
        if isinstance(error, pg.NotNullViolation) and column in _names(self.shares.key):
            return InvalidOutput(
                self.pipeline, column, "is null in some row, but it is part of the key."
            )
        return None

    def _duplicate(self, conn: Connection, staging: str, staged: Staged) -> InvalidOutput:
        parameters = {
            "staging": staging,
            "key_columns": _names(self.shares.key),
            "attempts": staged.attempts,
        }
        row = conn.execute(sql.query("duplicate_key", self.schema), parameters).fetchone()
        names = ", ".join(_names(self.shares.key))
        return InvalidOutput(
            self.pipeline,
            None,
            f"has more than one row with the key ({names}) = {one(row)[0]} in one batch, and "
            "columns to set: which of them? Group by the key.",
        )


def check_messages(pipeline: str, columns: Sequence[Column]) -> None:
    """Whether the columns make messages."""
    by_name = {column.name: column for column in columns}
    for name in ("type", "data"):
        if name not in by_name:
            raise InvalidOutput(pipeline, name, "is missing: a message needs it.")
    for column in columns:
        if column.name not in _MESSAGE_COLUMNS:
            raise InvalidOutput(
                pipeline,
                column.name,
                f"is no part of a message ({', '.join(_MESSAGE_COLUMNS)}). Drop it, or put it "
                "into data.",
            )
        is_json = column.name in ("data", "metadata") and column.conversion == "json"
        if column.type != "text" and not is_json:
            raise InvalidOutput(pipeline, column.name, f"is {column.type}: expected a string.")


@dataclass(frozen=True, slots=True)
class MessageMerge:
    """Rows become messages, in the order of the partitions and of the rows in each."""

    pipeline: str
    topic: str
    schema: str

    @property
    def staged(self) -> Sequence[Column]:
        return [Column(name, "text") for name in _MESSAGE_COLUMNS]

    @property
    def is_ordered(self) -> bool:
        return True

    @property
    def sums(self) -> Sums | None:
        return None

    def run(self, conn: Connection, staging: str, staged: Staged) -> None:
        parameters = {
            "staging": staging,
            "default_topic": self.topic,
            "attempts": staged.attempts,
        }
        conn.execute(sql.query("merge_messages", self.schema), parameters)

    def explain(
        self,
        error: psycopg.Error,
        conn: Connection,  # noqa: ARG002
        staging: str,  # noqa: ARG002
        staged: Staged,  # noqa: ARG002
    ) -> InvalidOutput | None:
        said = error.diag.message_primary
        if isinstance(error, pg.InvalidTextRepresentation):
            return InvalidOutput(
                self.pipeline, "data", f"or its metadata is not JSON in some row ({said})."
            )
        if isinstance(error, pg.NotNullViolation | pg.CheckViolation):
            return InvalidOutput(self.pipeline, error.diag.column_name, f"is no message: {said}.")
        return None


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _types(columns: Sequence[Column]) -> list[str]:
    return [column.type for column in columns]
