"""Messages of a test as a DataFrame, as if they had been read from the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from milepost.encode import to_json
from milepost.errors import InvalidMessage
from milepost.pipeline.frames.content import with_content
from milepost.pipeline.names import stored_columns
from milepost.pipeline.source import schema_of
from milepost.records import Position, RecordedMessage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from milepost.records import Message


def given_frame(
    spark: SparkSession, messages: Sequence[Message], columns: Sequence[str]
) -> DataFrame:
    stored, now = stored_columns(columns), datetime.now(UTC)
    rows = [_row(message, number, now) for number, message in enumerate(messages, 1)]
    values = [tuple(row[name] for name in stored) for row in rows]
    return with_content(spark.createDataFrame(values, schema_of(stored)), columns)


def _row(message: Message, number: int, now: datetime) -> dict[str, Any]:
    at, recorded_at = Position(0, number), now
    if isinstance(message, RecordedMessage):
        at, recorded_at = message.position, message.recorded_at
    return {
        "transaction_id": at.transaction_id,
        "position": at.position,
        "id": str(message.id),
        "topic": message.topic,
        "key": message.key,
        "type": message.type,
        "data": to_json("data", message.data, InvalidMessage).decode(),
        "metadata": to_json("metadata", message.metadata, InvalidMessage).decode(),
        "recorded_at": recorded_at,
    }
