"""Catch up by ranges of the log, as a rebuild does, before the stream begins.

A stateless pipeline that is more than a batch behind gains nothing from Spark's stream: its logs
and its planning cost every batch a quarter of a second, in which nothing is read, and nothing can
be read while a batch is merged. So all but the last batch is written range after range. The
checkpoint is the same, and the stream begins where it stands then. A pipeline that only has to
catch up needs no stream at all: to start one takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.pipeline.definition import EAGER
from milepost.pipeline.options import parse
from milepost.pipeline.overlap import write_all
from milepost.pipeline.planner import Planner
from milepost.pipeline.range_frame import range_frame
from milepost.pipeline.ranges import Range
from milepost.pipeline.stream import source_options, wait_for_orders

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import DataFrame, SparkSession

    from milepost.db import Connection
    from milepost.pipeline.definition import Definition, PipelineOptions
    from milepost.pipeline.report import Reporter
    from milepost.pipeline.writer import RangeWriter, Written
    from milepost.processors.session import Until
    from milepost.records import Position


def may_catch_up(options: PipelineOptions, until: Until) -> bool:
    """Not where Spark keeps state, nor where somebody wants a batch a minute and no more."""
    return not options.keeps_state and (options.ends(until) or options.trigger == EAGER)


@dataclass(slots=True)
class CatchUp:
    """One catching up, from the checkpoint on."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    spark: SparkSession
    writer: RangeWriter
    reporter: Reporter
    watching: Connection
    stop: Event
    is_all: bool  # to the end of the log as it is now, without a stream

    def run(self, at: Position) -> bool:
        """Whether something was written. Ends early if a stop is asked for."""
        batches = self.reporter.total_batches
        cores = self.spark.sparkContext.defaultParallelism
        given = source_options(self._options, self.url, self.schema, self._at_once, cores)
        with closing(Planner(parse(given, os.environ))) as planner:

            def output(range_: Range) -> DataFrame:
                return self.definition.function(range_frame(self.spark, planner, range_))

            write_all(self._ranges(planner, at), self.writer, output, self._wait, self._merged)
        return self.reporter.total_batches > batches

    def _ranges(self, planner: Planner, at: Position) -> Iterator[Range]:
        """Batch by batch, each found when the one before is staged. What the stream will do is
        left to it: the last batch."""
        newest = planner.horizon()
        left = 0 if self.is_all else self._at_once
        while not self.stop.is_set() and planner.about(Range(at, newest)) > left:
            range_ = Range(at, planner.reach(at, newest, self._at_once))
            yield range_
            at = range_.last
            if not self.is_all:
                newest = planner.horizon()

    def _wait(self) -> None:
        wait_for_orders(self.writer, self._options, self.stop)

    def _merged(self, range_: Range, written: Written) -> None:  # noqa: ARG002
        self.reporter.batch(written)
        self.reporter.tick(self.watching, dict)

    @property
    def _options(self) -> PipelineOptions:
        return self.definition.options

    @property
    def _at_once(self) -> int:
        return self._options.max_messages_per_batch
