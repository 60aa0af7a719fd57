"""What all ways of running a pipeline need: its version, its database and its Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from milepost import db
from milepost.log import Selection
from milepost.pipeline.names import stored_columns
from milepost.pipeline.sinks import Files
from milepost.pipeline.source import (
    DEFAULT_RETRY_SECONDS,
    LEAST_PER_PART,
    Conditions,
    SourceOptions,
    complete_conninfo,
)
from milepost.pipeline.spark.connect import cores_of
from milepost.pipeline.write import RangeWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from milepost.db import Connection
    from milepost.pipeline.definition import Definition, PipelineOptions
    from milepost.runtime import Runtime

DIRECTORY_VARIABLE = "MILEPOST_SPARK_DIR"


@dataclass(frozen=True, slots=True)
class Setup:
    definition: Definition
    runtime: Runtime
    spark: SparkSession
    retry_seconds: int = DEFAULT_RETRY_SECONDS  # how long reads wait for a lost server

    @property
    def url(self) -> str:
        return self.runtime.url

    @property
    def schema(self) -> str:
        return self.runtime.schema

    @property
    def options(self) -> PipelineOptions:
        return self.definition.options

    @property
    def cores(self) -> int:
        """Of all executors."""
        return cores_of(self.spark)

    def as_built(self, version: int) -> Setup:
        definition = replace(self.definition, options=self.options.as_built(version))
        return replace(self, definition=definition)

    @contextmanager
    def connected(self, prefix: str = "milepost") -> Iterator[Connection]:
        name = f"{prefix} {self.options.name}"[:63]
        with db.connect(self.url, application_name=name) as conn:
            db.detect_dead_peers(conn)
            db.check_schema(conn, self.schema)
            yield conn

    def writer(self, conn: Connection, owner: str, epoch: int) -> RangeWriter:
        """Removes what an earlier driver has left in staging."""
        if isinstance(self.options.sink, Files):
            raise TypeError("Files are written by Spark itself.")
        writer = RangeWriter(
            key=self.options.key,
            sink=self.options.sink,
            conn=conn,
            conninfo=complete_conninfo(self.url, os.environ),
            owner=owner,
            schema=self.schema,
            epoch=epoch,
            cores=self.cores,
            expectations=self.options.expectations,
            selection=Selection(self.options.topics, self.options.types),
        )
        writer.clean()
        return writer

    def source(self, max_messages: int) -> SourceOptions:
        """How it reads: so many messages are divided among all cores."""
        options = self.options
        return SourceOptions(
            conninfo=complete_conninfo(self.url, os.environ),
            schema=self.schema,
            conditions=Conditions(topics=_set(options.topics), types=_set(options.types)),
            max_messages=max_messages,
            partitions=options.partitions,
            messages_per_partition=max(max_messages // self.cores, LEAST_PER_PART),
            columns=stored_columns(options.wanted),
            retry_seconds=self.retry_seconds,
        )

    def directory(self, environ: Mapping[str, str] = os.environ) -> str:
        """Spark's directory for this version. The default is on this machine, whatever Spark's
        default file system is. One that was given is used as Spark understands it."""
        base = self.options.checkpoint_dir or environ.get(DIRECTORY_VARIABLE)
        if base is None:
            base = Path(".milepost", "spark").absolute().as_uri()
        name = quote(self.options.name, safe="")
        return f"{base.rstrip('/')}/{self.schema}/{name}/v{self.options.version}"


def _set(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
