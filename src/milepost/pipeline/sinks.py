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

    def beside(self, suffix: str) -> TableName:
        """Another one in the same schema."""
        return TableName(self.schema, f"{self.name}{suffix}")


@dataclass(frozen=True, slots=True)
class Upsert:
    """One row for each key, inserted or updated.

    `add` columns are increased, which is right because every batch counts exactly once. `set`
    columns are replaced. Without `set`, these are all columns except those of `key`, `add` and
    `delete`. `delete` is a boolean column: where it is true, the row of the key is deleted. It is
    not stored.
    """

    table: str
    key: Sequence[str]
    set: Sequence[str] | None = None
    add: Sequence[str] = ()
    delete: str | None = None

    def __post_init__(self) -> None:
        TableName.parse(self.table)
        for option in ("key", "set", "add"):
            _refuse_string(option, getattr(self, option))
        if not self.key:
            raise ValueError("Upsert needs a key: the columns that identify a row.")
        if self.delete is not None and self.add:
            # A sum has no order: whether a number was added before or after the deletion decides,
            # and the sums of a batch do not tell.
            raise ValueError("Upsert takes either add or delete, not both.")
        _refuse_repeated(self, [*self.key, *(self.set or ()), *self.add], self.delete)

    def describe(self) -> str:
        return f"upsert {self.table} by {', '.join(self.key)}"


VALID_FROM, VALID_TO = "valid_from", "valid_to"


@dataclass(frozen=True, slots=True)
class History:
    """All versions of the row of each key, with the time in which each was valid.

    `at` is the column that says from when a row is valid: it is stored as `valid_from`. `valid_to`
    is the `valid_from` of the next version of the key; it is null for the current one. Of two rows
    with the same key and time, the later one wins. `delete` is a boolean column: where it is true,
    the version before it ends at that time, and none begins. Such a row is stored with a
    `valid_to` that equals its `valid_from`, so that it is valid at no time.
    """

    table: str
    key: Sequence[str]
    at: str
    delete: str | None = None

    def __post_init__(self) -> None:
        TableName.parse(self.table)
        _refuse_string("key", self.key)
        if not self.key:
            raise ValueError("History needs a key: the columns that identify what has versions.")
        if not self.at:
            raise ValueError("History needs at: the column that says from when a row is valid.")
        if taken := [name for name in self.key if name in (VALID_FROM, VALID_TO)]:
            raise ValueError(f"{taken[0]} is a column that History makes: rename that of the key.")
        _refuse_repeated(self, [*self.key, self.at], self.delete)

    def describe(self) -> str:
        return f"history {self.table} by {', '.join(self.key)} at {self.at}"


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


TableSink: TypeAlias = Upsert | Append | History
PostgresSink: TypeAlias = TableSink | ToLog | ToQueue
Sink: TypeAlias = PostgresSink | Files
# The order of the rows matters to these: it is that of the messages.
ORDERED_SINKS = (History, ToLog, ToQueue)


def _refuse_string(option: str, value: object) -> None:
    """A string is a sequence of strings too: its letters would be taken for columns."""
    if isinstance(value, str):
        raise ValueError(f"{option} is {value!r}: expected a list, [{value!r}].")  # noqa: TRY004


def _refuse_repeated(sink: Upsert | History, names: list[str], delete: str | None) -> None:
    named = names if delete is None else [*names, delete]
    if twice := sorted({name for name in named if named.count(name) > 1}):
        what = "key, set, add and delete" if isinstance(sink, Upsert) else "key, at and delete"
        raise ValueError(f"{type(sink).__name__} names {', '.join(twice)} twice among {what}.")
