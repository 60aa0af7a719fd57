"""Every figure, in the order in which they are measured. A new one is a module and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import (
    append_bulk,
    append_conditional,
    append_session,
    append_single,
    archive_beside,
    archive_read,
    archive_rebuild,
    archive_spark,
    archive_upsert,
    archive_write,
    dashboard,
    horizon,
    metrics,
    processor,
    processor_idle,
    processor_latency,
    processor_session,
    processor_standbys,
    queue_batch,
    queue_drain,
    queue_held_snapshot,
    queue_latency,
    queue_limited_take,
    queue_max_size,
    queue_put,
    queue_take,
    queue_tasks,
    queue_tx,
    read,
    segments_overhead,
    segments_scaling,
    segments_takeover,
    spark_growth,
    spark_latency,
    spark_many,
    spark_read,
    spark_rebuild,
    spark_upsert,
    spark_write,
    traces,
)

if TYPE_CHECKING:
    from benchmarks.figure import Figure

FIGURES: tuple[Figure, ...] = (
    append_single.FIGURE,
    append_bulk.FIGURE,
    append_conditional.FIGURE,
    append_session.FIGURE,
    read.FIGURE,
    horizon.FIGURE,
    metrics.FIGURE,
    dashboard.FIGURE,
    archive_write.FIGURE,
    archive_beside.FIGURE,
    archive_read.FIGURE,
    processor.FIGURE,
    processor_session.FIGURE,
    processor_latency.FIGURE,
    processor_idle.FIGURE,
    processor_standbys.FIGURE,
    segments_overhead.FIGURE,
    segments_scaling.FIGURE,
    segments_takeover.FIGURE,
    queue_put.FIGURE,
    queue_take.FIGURE,
    queue_latency.FIGURE,
    queue_held_snapshot.FIGURE,
    queue_limited_take.FIGURE,
    queue_max_size.FIGURE,
    queue_drain.FIGURE,
    queue_tasks.FIGURE,
    queue_tx.FIGURE,
    queue_batch.FIGURE,
    traces.FIGURE,
    spark_read.FIGURE,
    spark_upsert.FIGURE,
    spark_rebuild.FIGURE,
    spark_latency.FIGURE,
    spark_many.FIGURE,
    spark_growth.FIGURE,
    spark_write.FIGURE,
    archive_spark.FIGURE,
    archive_rebuild.FIGURE,
    archive_upsert.FIGURE,
)


def named(names: list[str]) -> list[Figure]:
    """The figures of these names; all of them without any."""
    return [figure for figure in FIGURES if not names or figure.name in names]
