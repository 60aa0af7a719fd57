"""A rebuild of a log whose beginning is in the archive only."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost, Position
from tests.pipeline.archived import Archive
from tests.pipeline.rebuilding import CUSTOMERS, customers, rebuild_of
from tests.pipeline.running import catch_up, expected_per_customer, place, rows

pytestmark = pytest.mark.usefixtures("spark_directory")


def test_a_rebuild_reads_the_archive_while_it_grows(
    mp: Milepost, spark: SparkSession, archive: Archive
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 70)
    catch_up(pipeline, spark)
    place(mp, 70, 130)
    positions = [message.position for message in mp.read()]
    archive.up_to(positions[59])
    archive.remove(positions[59])
    ends = [positions[119], positions[179]]

    rebuild = rebuild_of(pipeline, spark)
    rebuild.watch = lambda progress: (
        grow(archive, ends) if progress.done and progress.phase == "filling" else None
    )
    rebuilt = rebuild.run()
    assert ends == []
    assert (rebuilt.version, rebuilt.rows) == (2, 200)
    assert rows(mp, CUSTOMERS) == expected_per_customer(200)


def grow(archive: Archive, ends: list[Position]) -> None:
    """Ahead of the rebuild, and the rows are gone."""
    if ends:
        end = ends.pop(0)
        archive.up_to(end)
        archive.remove(end)
