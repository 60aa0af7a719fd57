"""From staging to a sink: one statement in the transaction that also moves the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import psycopg

    from milepost.db import Connection
    from milepost.errors import InvalidOutput
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
