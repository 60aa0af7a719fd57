"""Whether a DataFrame's columns make messages, and how its rows become those of staging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milepost.errors import InvalidOption, InvalidOutput, InvalidRows
from milepost.pipeline.sink.json_text import Text, json_texts, text_of
from milepost.pipeline.sinks import ToLog
from milepost.pipeline.write.column_types import columns_of
from milepost.pipeline.write.to_items import item_merge

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from milepost.db import Connection
    from milepost.pipeline.write.merge import Merge
    from milepost.pipeline.write.staging import Staged

_WHOSE = 'format("milepost")'  # a pipeline has a name; a write has none


@dataclass(frozen=True, slots=True)
class Rows:
    """Of one DataFrame: which columns are JSON in another form, and how they are merged."""

    texts: Mapping[str, Text]
    merge: Merge

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> Rows:
        try:
            columns = columns_of(_WHOSE, schema)
            merge = item_merge(_WHOSE, ToLog(), columns)
        except InvalidOutput as error:
            raise _plain(error) from None
        if topic is None and "topic" not in schema.names:
            raise InvalidOption(
                "topic", "is missing: pass it, or give each row one in a column topic."
            )
        texts = {
            column.name: text_of(column.name, schema[column.name].dataType)
            for column in columns
            if column.conversion == "json"
        }
        return cls(texts, replace(merge, parameters={"default_topic": topic}))

    def staged(self, rows: pa.Table) -> pa.Table:
        """With JSON as text."""
        for name, text in self.texts.items():
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, name, json_texts(rows.column(name), text))
        return rows

    def explained(
        self, error: psycopg.Error, conn: Connection, staged: Staged
    ) -> InvalidRows | None:
        """What the server's error means, asked after the rollback."""
        found = self.merge.explain(error, conn, staged)
        return None if found is None else _plain(found)


def _plain(error: InvalidOutput) -> InvalidRows:
    return InvalidRows(error.column, error.reason)
