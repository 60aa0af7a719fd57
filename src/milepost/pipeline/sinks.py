"""Where a pipeline's output goes. Plain values, without Spark or SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

LONGEST_NAME_BYTES = 63  # PostgreSQL cuts longer identifiers without an error


@dataclass(frozen=True, slots=True)
class TableName:
    """A table, with or without its schema."""

    schema: str | None
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        schema, dot, name = text.rpartition(".")
        if not name or (dot and not schema) or "." in schema:
            raise ValueError(
                f"{text!r} is not the name of a table: expected table or schema.table."
            )
        return cls(schema or None, name)

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    def versioned(self, version: int) -> str:
        return f"{self.name}__v{version}"


@dataclass(frozen=True, slots=True)
class Upsert:
    """One row for each key, inserted or updated.

    `add` columns are increased, which is right because every batch counts exactly once. `set`
    columns are replaced. Without `set`, these are all columns except those of `key` and `add`.
    """

    table: str
    key: Sequence[str]
    set: Sequence[str] | None = None
    add: Sequence[str] = ()

    def __post_init__(self) -> None:
        TableName.parse(self.table)
        for option in ("key", "set", "add"):
            _refuse_string(option, getattr(self, option))
        if not self.key:
            raise ValueError("Upsert needs a key: the columns that identify a row.")
        named = [*self.key, *(self.set or ()), *self.add]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise ValueError(f"Upsert names {', '.join(twice)} twice among key, set and add.")

    def describe(self) -> str:
        return f"upsert {self.table} by {', '.join(self.key)}"


@dataclass(frozen=True, slots=True)
class Append:
    """Inserts a row for each row of the output."""

    table: str

    def __post_init__(self) -> None:
        TableName.parse(self.table)

    def describe(self) -> str:
        return f"append {self.table}"


@dataclass(frozen=True, slots=True)
class ToLog:
    """Appends a message for each row: columns `type` and `data` (JSON as a string, or a struct, map
    or variant), and optionally `key`, `metadata` and `topic`. Without `topic`, the one given here.
    """

    topic: str = "default"

    def __post_init__(self) -> None:
        if not 0 < len(self.topic) <= 255:
            raise ValueError("A topic has 1 to 255 characters.")

    def describe(self) -> str:
        return f"log {self.topic}"


@dataclass(frozen=True, slots=True)
class ToQueue:
    """Puts a job for each row: column `content` (JSON as a string, or a struct, map or variant),
    and optionally `run_at`, `priority`, `max_attempts`, `unique_key` and `channel`. Without
    `channel`, the one given here."""

    channel: str = "default"

    def __post_init__(self) -> None:
        if not 0 < len(self.channel) <= 255:
            raise ValueError("A channel's name has 1 to 255 characters.")

    def describe(self) -> str:
        return f"queue {self.channel}"


@dataclass(frozen=True, slots=True)
class Files:
    """Files, through Spark's own file sink. Spark's checkpoint directory decides what is written.
    The checkpoint in PostgreSQL follows it and is for information."""

    path: str
    format: str = "parquet"
    partition_by: Sequence[str] = ()

    def __post_init__(self) -> None:
        _refuse_string("partition_by", self.partition_by)

    def describe(self) -> str:
        return f"{self.format} files"  # a path may contain a secret of its storage


TableSink: TypeAlias = Upsert | Append
PostgresSink: TypeAlias = Upsert | Append | ToLog | ToQueue
Sink: TypeAlias = Upsert | Append | ToLog | ToQueue | Files


def _refuse_string(option: str, value: object) -> None:
    """A string is a sequence of strings too: its letters would be taken for columns."""
    if isinstance(value, str):
        raise ValueError(f"{option} is {value!r}: expected a list, [{value!r}].")  # noqa: TRY004
