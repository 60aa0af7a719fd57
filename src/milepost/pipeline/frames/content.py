"""`content`: the JSON of a message as a VARIANT. Stored in files that Spark has written, and parsed
from `data` elsewhere, in the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from milepost.pipeline.names import CONTENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_MARK = "cannot be given as `content`"
_REFUSED = (
    f"{_MARK}: a VARIANT cannot hold its JSON, for example if a key occurs "
    "twice in an object, or if a string is not valid Unicode. Nothing was skipped. Read `data` "
    "instead, or rewrite the message in SQL."
)


def parsed() -> Column:
    """Never null: JSON that a VARIANT cannot hold is an error that names the message. It needs the
    columns `data`, `transaction_id` and `position`."""
    place = f.concat_ws(":", "transaction_id", "position")
    refused = f.raise_error(f.concat(f.lit("The message at "), place, f.lit(f" {_REFUSED}")))
    return f.coalesce(f.try_parse_json("data"), refused.cast("variant")).alias(CONTENT)


def is_refused_content(error: BaseException) -> bool:
    """Whether a job failed because of JSON that a VARIANT cannot hold."""
    return _MARK in str(error)


def with_content(messages: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns of messages, of which the stored ones are there. Unchanged without `content`:
    Spark analyses one plan less."""
    if CONTENT not in columns:
        return messages
    return messages.select([parsed() if name == CONTENT else f.col(name) for name in columns])
