"""The message of a dead letter as a DataFrame, as if it were the only one of a range."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from milepost.errors import UnreadableMessage
from milepost.pipeline.frames.content import with_content
from milepost.pipeline.names import stored_columns
from milepost.pipeline.source import schema_of
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, with the columns of its message as Spark has them."""

    letter: int
    transaction_id: int
    position: int
    id: str
    topic: str
    key: str | None
    type: str
    data: str
    metadata: str
    recorded_us: int | None  # None: the time is infinite

    @property
    def at(self) -> Position:
        return Position(self.transaction_id, self.position)

    @property
    def recorded_at(self) -> datetime:
        if self.recorded_us is not None:
            with suppress(OverflowError):
                return _UNIX_EPOCH + timedelta(microseconds=self.recorded_us)
        reason = "the time at which it was recorded is not in the years 1 to 9999"
        raise UnreadableMessage(self.at, reason)


def letter_frame(spark: SparkSession, letter: Letter, columns: Sequence[str]) -> DataFrame:
    stored = stored_columns(columns)
    row: tuple[Any, ...] = tuple(getattr(letter, name) for name in stored)
    return with_content(spark.createDataFrame([row], schema_of(stored)), columns)
