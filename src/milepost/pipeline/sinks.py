"""Where a pipeline's output goes. Plain values: this module knows neither Spark nor SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

LONGEST_NAME_BYTES = 63  # PostgreSQL cuts an identifier there, without an error


@dataclass(frozen=True, slots=True)
class TableName:
    """A table, with or without the schema that it is in."""

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
    """One row a key, inserted or updated.

    `add` columns are increased, which is right because every batch counts exactly once; `set`
    columns are replaced. Without `set`, those are all columns but the key's and `add`'s.
    """

    table: str
    key: Sequence[str]
    set: Sequence[str] | None = None
    add: Sequence[str] = ()

    def __post_init__(self) -> None:
        TableName.parse(self.table)
        for option in ("key", "set", "add"):
            _refuse_text(option, getattr(self, option))
        if not self.key:
            raise ValueError("Upsert needs a key: the columns that tell rows apart.")
        named = [*self.key, *(self.set or ()), *self.add]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise ValueError(f"Upsert names {', '.join(twice)} twice among key, set and add.")

    def describe(self) -> str:
        return f"upsert {self.table} by {', '.join(self.key)}"


@dataclass(frozen=True, slots=True)
class Append:
    """A row for every row of the output."""

    table: str

    def __post_init__(self) -> None:
        TableName.parse(self.table)

    def describe(self) -> str:
        return f"append {self.table}"


@dataclass(frozen=True, slots=True)
class ToLog:
    """A message for every row: columns `type` and `data` (JSON as text, or a struct, map or
    variant), and if there are any `key`, `metadata` and `topic`, else the topic given here."""

    topic: str = "default"

    def __post_init__(self) -> None:
        if not 0 < len(self.topic) <= 255:
            raise ValueError("A topic takes 1 to 255 characters.")

    def describe(self) -> str:
        return f"log {self.topic}"


@dataclass(frozen=True, slots=True)
class ToQueue:
    """A job for every row: column `content` (JSON as text, or a struct, map or variant), and if
    there are any `run_at`, `priority`, `max_attempts`, `unique_key` and `channel`, else the channel
    given here."""

    channel: str = "default"

    def __post_init__(self) -> None:
        if not 0 < len(self.channel) <= 255:
            raise ValueError("A channel's name takes 1 to 255 characters.")

    def describe(self) -> str:
        return f"queue {self.channel}"


@dataclass(frozen=True, slots=True)
class Files:
    """Files, through Spark's own file sink. Their truth is in Spark's checkpoint directory; the
    checkpoint in PostgreSQL follows behind, to be looked at."""

    path: str
    format: str = "parquet"
    partition_by: Sequence[str] = ()

    def __post_init__(self) -> None:
        _refuse_text("partition_by", self.partition_by)

    def describe(self) -> str:
        return f"{self.format} files"  # a path may hold a key to its storage


TableSink: TypeAlias = Upsert | Append
PostgresSink: TypeAlias = Upsert | Append | ToLog | ToQueue
Sink: TypeAlias = Upsert | Append | ToLog | ToQueue | Files


def _refuse_text(option: str, value: object) -> None:
    """A text is a sequence of texts too: its letters would be taken for columns."""
    if isinstance(value, str):
        raise ValueError(f"{option} is {value!r}: expected a list, [{value!r}].")  # noqa: TRY004
