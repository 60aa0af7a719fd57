"""From staging to a sink: one statement in the transaction that also moves the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.errors import InvalidOutput

if TYPE_CHECKING:
    import psycopg

    from milepost.db import Connection
    from milepost.pipeline.write.column_types import Column
    from milepost.pipeline.write.presum import Sums
    from milepost.pipeline.write.spark_sums import SparkSums
    from milepost.pipeline.write.staging import Staged

# What an error of the server means for the sink, asked after the rollback. None if the server's own
# message says it best.
Explain: TypeAlias = "Callable[[psycopg.Error, Connection, Staged], InvalidOutput | None]"


@dataclass(frozen=True, slots=True)
class Merge:
    """How the rows of one output get into its sink."""

    query: str
    parameters: dict[str, Any]
    staged: Sequence[Column]  # the columns of staging
    explain: Explain = lambda *_: None
    is_ordered: bool = False  # whether the order of the rows matters
    sums: Sums | None = None  # how a task adds up its rows of a key before, if it may
    spark_sums: SparkSums | None = None  # how Spark adds them up over all tasks, if it may


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows get into a table, and what the table must have for that."""

    merge: Merge  # without its target
    stored: Sequence[Column]
    key: Sequence[str] = ()  # the columns that identify a row


def named(share: str, columns: Sequence[Column]) -> dict[str, list[str]]:
    """The parameters for one share of the columns."""
    prefix = f"{share}_" if share else ""
    types = [column.type for column in columns]
    return {f"{prefix}columns": names_of(columns), f"{prefix}types": types}


def names_of(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def by_names(
    pipeline: str, columns: Sequence[Column], needed: Sequence[str], delete: str | None
) -> dict[str, Column]:
    """Refuses columns that the sink names and the output lacks, and a deletion that is not
    boolean."""
    found = {column.name: column for column in columns}
    for name in (*needed, *(() if delete is None else (delete,))):
        if name not in found:
            raise InvalidOutput(pipeline, name, "is missing: the sink names it.")
    if delete is not None and found[delete].type != "boolean":
        reason = f"is {found[delete].type}: expected boolean, because it says what is deleted."
        raise InvalidOutput(pipeline, delete, f"{reason} Cast it.")
    return found
