from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from milepost import Message, Milepost, Position
from milepost.pipeline.source.readers import StreamReader
from tests.pipeline.sourcing import append, drain, numbers_in, stream, to_files
from tests.waiting import wait_until

append_order = pytest.mark.parametrize("order", ["append"])


def sizes(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress]


def sources(query: StreamingQuery) -> list[Any]:
    return [progress.sources[0] for progress in query.recentProgress]


def position(offset: str) -> Position:
    return Position(**json.loads(offset))


@append_order
def test_all_that_is_there_is_read_in_batches_of_the_limit(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    append(mp, 25)
    query = drain(stream(spark, url, maxMessagesPerTrigger=10), tmp_path)
    assert sizes(query) == [10, 10, 5]
    assert numbers_in(spark, tmp_path) == list(range(25))


def test_the_limit_counts_what_is_selected(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    append(mp, 30)
    query = drain(stream(spark, url, maxMessagesPerTrigger=10, types="Odd"), tmp_path)
    assert sizes(query) == [10, 5]
    assert numbers_in(spark, tmp_path) == list(range(1, 30, 2))


@append_order
def test_a_second_run_goes_on_where_the_first_ended(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    append(mp, 10)
    drain(stream(spark, url), tmp_path)
    assert sizes(drain(stream(spark, url), tmp_path)) in ([], [0])
    append(mp, 5, first=10)
    assert sum(sizes(drain(stream(spark, url), tmp_path))) == 5
    assert numbers_in(spark, tmp_path) == list(range(15))


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


def stream_reader(url: str, **options: str) -> StreamReader:
    from milepost.pipeline.data_source import MilepostSource
    from milepost.pipeline.source.readers import SCHEMA

    return MilepostSource({"url": url, **options}).streamReader(SCHEMA)


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


def test_latest_starts_at_the_horizon_not_at_the_newest_row(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    append(mp, 5)
    with mp.connect() as conn, conn.transaction():
        mp.append(conn, Message("InFlight", {"n": 5}))
        append(mp, 3, first=6)  # newer rows, which are committed
        drain(stream(spark, url, startingPosition="latest"), tmp_path)
    drain(stream(spark, url, startingPosition="latest"), tmp_path)
    assert numbers_in(spark, tmp_path) == [5, 6, 7, 8]


def test_a_stream_waits_for_what_is_in_flight_and_skips_nothing(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    """Each time, the stream comes to rest while an earlier message is not committed yet."""
    query = to_files(stream(spark, url), tmp_path, is_following=True)
    try:
        for turn in range(3):
            with mp.connect() as conn, conn.transaction():
                mp.append(conn, Message("Slow", {"n": 10 * turn}))
                append(mp, 9, first=10 * turn + 1)
                query.processAllAvailable()
                assert numbers_in(spark, tmp_path) == list(range(10 * turn))
        expected = list(range(30))
        wait_until(lambda: len(numbers_in(spark, tmp_path)) >= len(expected), 90, 0.5)
    finally:
        query.stop()
    assert numbers_in(spark, tmp_path) == expected


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
    append(mp, 20, first=12)

    again = drain(stream(spark, url, maxMessagesPerTrigger=8), tmp_path)

    assert sizes(again)[0] == 4
    shutil.rmtree(tmp_path / "out" / "_spark_metadata")  # lists what was thrown away, too
    assert numbers_in(spark, tmp_path) == list(range(8, 32))


def test_progress_shows_how_far_there_is_to_go(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    newest = append(mp, 25)[-1]
    query = drain(stream(spark, url, maxMessagesPerTrigger=10), tmp_path)
    first = sources(query)[0]
    assert position(first.latestOffset) == newest
    assert position(first.endOffset) < newest


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
