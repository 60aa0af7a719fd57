"""`format("milepost")`: the log as a Spark data source, to read and to write."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql.datasource import DataSource

from milepost.errors import InvalidOption
from milepost.pipeline.source import (
    BatchReader,
    SourceOptions,
    StreamReader,
    parse_options,
    plainly,
    refuse_other_python,
    requested_columns,
    schema_of,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from milepost.pipeline.sink import BatchWriter, StreamWriter


class MilepostSource(DataSource):
    """Register it once for each session: `spark.dataSource.register(MilepostSource)`."""

    @classmethod
    def name(cls) -> str:
        """Spark asks for it when the source is registered: the first time that we are asked
        anything, and the last time before Spark starts the Python of its workers."""
        if SparkContext._active_spark_context is not None:  # in the driver
            refuse_other_python(SparkContext._active_spark_context)
        return "milepost"

    @plainly
    def schema(self) -> StructType:
        return schema_of(self._parsed().columns)

    @plainly
    def reader(self, schema: StructType) -> BatchReader:
        parsed = self._parsed()
        if parsed.max_messages is not None:
            raise InvalidOption(
                "maxMessagesPerTrigger", "is for streams: a batch reads up to endingPosition."
            )
        return BatchReader(replace(parsed, columns=requested_columns(schema)))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """Not plainly: if this fails, Spark stops the reader that it does not have, and shows that
        error. Ours is in the traceback."""
        parsed = self._parsed()
        if parsed.end != "latest":
            raise InvalidOption("endingPosition", "is for batch reads: a stream has no end.")
        return StreamReader(replace(parsed, columns=requested_columns(schema)))

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        # Not imported above: readers, which start for each stream, would wait for it.
        from milepost.pipeline.sink import BatchWriter, parse_sink_options, refuse_overwrite

        refuse_overwrite(overwrite, 'mode("append")')
        return BatchWriter(parse_sink_options(self.options, os.environ), schema).begin()

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        from milepost.pipeline.sink import StreamWriter, parse_sink_options, refuse_overwrite

        refuse_overwrite(overwrite, 'outputMode("append")')
        return StreamWriter(parse_sink_options(self.options, os.environ), schema)

    def _parsed(self) -> SourceOptions:
        return parse_options(self.options, os.environ)
