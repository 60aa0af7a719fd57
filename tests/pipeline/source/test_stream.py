from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery

from milepost import Message, Milepost, Position
from milepost.pipeline.source.readers import StreamReader
from tests.pipeline.sourcing import append, drain, numbers_in, stream, to_files

Offset: TypeAlias = dict[str, int]
append_order = pytest.mark.parametrize("order", ["append"])


def sizes(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress]


def sources(query: StreamingQuery) -> list[Any]:
    return [progress.sources[0] for progress in query.recentProgress]


def position(offset: str) -> Position:
    return Position(**json.loads(offset))


def stream_reader(url: str, **options: str) -> StreamReader:
    from milepost.pipeline.data_source import MilepostSource
    from milepost.pipeline.source.readers import SCHEMA

    return MilepostSource({"url": url, **options}).streamReader(SCHEMA)


def numbers_between(reader: StreamReader, start: Offset, end: Offset) -> list[int]:
    """What Spark's tasks read of a batch."""
    parts = reader.partitions(start, end)
    batches = [batch for part in parts for batch in reader.read(part)]
    return [json.loads(data)["n"] for batch in batches for data in batch["data"].to_pylist()]


@append_order
def test_each_run_reads_what_is_new_in_batches_of_the_limit(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    def run() -> StreamingQuery:
        return drain(stream(spark, url, maxMessagesPerTrigger=10), tmp_path)

    newest = append(mp, 15)[-1]
    first = run()
    assert sizes(first) == [10, 5]
    progress = sources(first)[0]  # shows how far there is to go
    assert position(progress.latestOffset) == newest
    assert position(progress.endOffset) < newest
    assert sizes(run()) in ([], [0])
    append(mp, 5, first=15)
    assert sum(sizes(run())) == 5
    assert numbers_in(spark, tmp_path) == list(range(20))


def test_the_limit_counts_what_is_selected(mp: Milepost, url: str) -> None:
    append(mp, 30)
    reader = stream_reader(url, types="Odd", maxMessagesPerTrigger="10")
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, limit)
    end = reader.latestOffset(middle, limit)
    assert numbers_between(reader, start, middle) == list(range(1, 20, 2))
    assert numbers_between(reader, middle, end) == list(range(21, 30, 2))
    assert reader.latestOffset(end, limit) == end == reader.reportLatestOffset()
    reader.stop()


@append_order
def test_what_is_not_selected_moves_the_offset_too(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    last = append(mp, 10, topic="other")[-1]
    query = drain(stream(spark, url, topics="orders"), tmp_path)
    assert [position(source.endOffset) for source in sources(query)] == [last]
    assert numbers_in(spark, tmp_path) == []


def test_the_end_is_frozen_when_available_now_begins(
    spark: SparkSession, mp: Milepost, url: str
) -> None:
    append(mp, 10)
    reader = stream_reader(url)
    reader.prepareForTriggerAvailableNow()
    append(mp, 10, first=10)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    assert reader.reportLatestOffset() != end
    reader.stop()


def test_an_idle_log_starts_no_batch(mp: Milepost, url: str) -> None:
    """In transaction order the horizon moves with every transaction of the cluster."""
    append(mp, 3)
    reader = stream_reader(url)
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    with mp.connect() as conn:
        conn.execute("create table something (n int)")
    assert reader.latestOffset(end, limit) == end
    reader.stop()


def test_latest_starts_at_the_horizon_not_at_the_newest_row(mp: Milepost, url: str) -> None:
    append(mp, 5)
    reader = stream_reader(url, startingPosition="latest")
    limit = reader.getDefaultReadLimit()
    with mp.connect() as conn, conn.transaction():
        mp.append(conn, Message("InFlight", {"n": 5}))
        append(mp, 3, first=6)  # newer rows, which are committed
        start = reader.initialOffset()
        assert reader.latestOffset(start, limit) == start
    assert numbers_between(reader, start, reader.latestOffset(start, limit)) == [5, 6, 7, 8]
    reader.stop()


@pytest.mark.parametrize("order", ["transaction"])
def test_a_second_run_begins_where_latest_was_for_the_first(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    append(mp, 5)
    with mp.connect() as conn, conn.transaction():
        mp.append(conn, Message("InFlight", {"n": 5}))
        append(mp, 3, first=6)
        drain(stream(spark, url, startingPosition="latest"), tmp_path)
    drain(stream(spark, url, startingPosition="latest"), tmp_path)
    assert numbers_in(spark, tmp_path) == [5, 6, 7, 8]


def test_a_reader_waits_for_what_is_in_flight_and_skips_nothing(mp: Milepost, url: str) -> None:
    """Each time, it comes to rest while an earlier message is not committed yet."""
    reader = stream_reader(url)
    limit, offsets = reader.getDefaultReadLimit(), [reader.initialOffset()]
    for turn in range(3):
        with mp.connect() as conn, conn.transaction():
            mp.append(conn, Message("Slow", {"n": 10 * turn}))
            append(mp, 9, first=10 * turn + 1)
            assert reader.latestOffset(offsets[-1], limit) == offsets[-1]
        offsets.append(reader.latestOffset(offsets[-1], limit))
    found = [numbers_between(reader, *pair) for pair in pairwise(offsets)]
    assert found == [list(range(first, first + 10)) for first in (0, 10, 20)]
    reader.stop()


@pytest.mark.parametrize("order", ["transaction"])
def test_a_stream_waits_for_what_is_in_flight(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    query = to_files(stream(spark, url), tmp_path, is_following=True)
    try:
        for turn in range(2):
            with mp.connect() as conn, conn.transaction():
                mp.append(conn, Message("Slow", {"n": 10 * turn}))
                append(mp, 9, first=10 * turn + 1)
                query.processAllAvailable()
                assert numbers_in(spark, tmp_path) == list(range(10 * turn))
        query.processAllAvailable()
    finally:
        query.stop()
    assert numbers_in(spark, tmp_path) == list(range(20))


@append_order
def test_a_batch_that_is_run_again_reads_the_same(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    """Its end was logged, its work was not: it is replayed, after more has been appended."""
    append(mp, 12)
    query = drain(stream(spark, url, maxMessagesPerTrigger=8), tmp_path)
    assert sizes(query) == [8, 4]
    shutil.rmtree(tmp_path / "out")
    for file in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        file.unlink()
    append(mp, 8, first=12)

    again = drain(stream(spark, url, maxMessagesPerTrigger=8), tmp_path)

    assert sizes(again) == [4, 8]
    shutil.rmtree(tmp_path / "out" / "_spark_metadata")  # lists what was thrown away, too
    assert numbers_in(spark, tmp_path) == list(range(8, 20))


@append_order
def test_a_stream_has_no_end(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="a stream has no end"):
        drain(stream(spark, url, endingPosition="3"), tmp_path)


def test_a_rare_selection_is_looked_for_in_steps(
    mp: Milepost, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("milepost.pipeline.source.planner._LEAST_WALK", 20)
    positions = append(mp, 50)
    with mp.connect() as conn:
        rare = mp.append(conn, Message("Rare", {}))[0]
    reader = stream_reader(url, types="Rare", maxMessagesPerTrigger="1")
    limit, ends, offset = reader.getDefaultReadLimit(), [], reader.initialOffset()
    for _ in range(4):
        offset = reader.latestOffset(offset, limit)
        ends.append(Position(**offset))
    assert ends == [positions[19], positions[39], rare, rare]
    reader.stop()
