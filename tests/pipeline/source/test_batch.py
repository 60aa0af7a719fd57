from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from milepost import Message, Milepost, Position
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.errors import StartAfterEnd
from milepost.pipeline.names import COLUMNS
from milepost.pipeline.source.options import parse
from milepost.pipeline.source.planner import Planner
from milepost.pipeline.source.range_reader import RangeReader
from milepost.pipeline.source.ranges import Range
from milepost.sql import LogOrder
from tests.pipeline.sourcing import append, numbers_of, table

append_order = pytest.mark.parametrize("order", ["append"])


def test_every_column_is_as_it_was_appended(spark: SparkSession, mp: Milepost, url: str) -> None:
    odd = '{"a": 1.50,  "b": "ü\\u0000\\ud83d"}'  # as written, whatever Python would make of it
    with mp.connect() as conn:
        mp.append(conn, Message("Plain", {"n": 0}, key="k", topic="t", metadata={"by": "me"}))
        conn.execute(
            "insert into milepost.messages (id, type, data) values (gen_random_uuid(), 'Odd', %s)",
            [odd],
        )
    recorded = next(iter(mp.read(types=["Plain"])))
    first, second = table(spark, url).orderBy("transaction_id", "position").collect()

    assert first.asDict() | {"recorded_at": None, "data": None, "metadata": None} == {
        "transaction_id": recorded.position.transaction_id,
        "position": recorded.position.position,
        "id": str(recorded.id),
        "topic": "t",
        "key": "k",
        "type": "Plain",
        "data": None,
        "metadata": None,
        "recorded_at": None,
    }
    assert list(first.asDict()) == list(COLUMNS)
    assert (first.data, first.metadata) == ('{"n":0}', '{"by":"me"}')
    same_time = table(spark, url).where(f"recorded_at = timestamp'{recorded.recorded_at}'")
    assert [row.id for row in same_time.collect()] == [str(recorded.id)]
    assert (second.data, second.key, second.topic) == (odd, None, "default")


@pytest.mark.parametrize("options", [{"partitions": 5}, {"messagesPerPartition": 40}, {}])
def test_all_messages_are_read_once_however_they_are_split(
    spark: SparkSession, mp: Milepost, url: str, options: dict[str, int]
) -> None:
    append(mp, 200)
    messages = table(spark, url, **options)
    assert messages.rdd.getNumPartitions() == (5 if options else 1)
    assert numbers_of(messages) == list(range(200))


def test_an_empty_log_is_an_empty_table(spark: SparkSession, url: str) -> None:
    assert table(spark, url).count() == 0


def test_what_is_in_flight_is_not_read_and_holds_back_what_came_later(
    spark: SparkSession, mp: Milepost, url: str
) -> None:
    append(mp, 10)
    with mp.connect() as conn, conn.transaction():
        mp.append(conn, Message("Late", {"n": 10}))
        append(mp, 5, first=11)
        assert numbers_of(table(spark, url)) == list(range(10))
    assert numbers_of(table(spark, url)) == list(range(16))


def test_topics_and_types_select(spark: SparkSession, mp: Milepost, url: str) -> None:
    append(mp, 10)
    append(mp, 10, topic="other", first=10)
    assert numbers_of(table(spark, url, topics="other")) == list(range(10, 20))
    assert numbers_of(table(spark, url, topics="orders,other", types="Odd")) == list(
        range(1, 20, 2)
    )


def test_from_a_position_to_a_position(spark: SparkSession, mp: Milepost, url: str) -> None:
    positions = append(mp, 30)
    part = table(spark, url, startingPosition=positions[9], endingPosition=positions[19])
    assert numbers_of(part) == list(range(10, 20))


@append_order
def test_a_batch_has_no_triggers(spark: SparkSession, url: str) -> None:
    with pytest.raises(Exception, match="is for streams: a batch reads up to endingPosition"):
        table(spark, url, maxMessagesPerTrigger=3).collect()


def test_from_a_time_to_a_time(spark: SparkSession, mp: Milepost, url: str) -> None:
    append(mp, 7)
    append(mp, 7, first=7)
    append(mp, 7, first=14)
    times = [message.recorded_at for message in mp.read()]
    part = table(
        spark, url, startingPosition=times[7].isoformat(), endingPosition=times[14].isoformat()
    )
    assert numbers_of(part) == list(range(7, 14))


def test_from_a_processors_checkpoint(spark: SparkSession, mp: Milepost, url: str) -> None:
    positions = append(mp, 20)
    with mp.connect() as conn:
        PostgresCheckpointStore(conn).store(CheckpointKey("billing", 2), None, positions[14])
    options = {"startingPosition": "checkpoint"}
    assert numbers_of(table(spark, url, processor="billing@2", **options)) == [15, 16, 17, 18, 19]
    assert len(numbers_of(table(spark, url, processor="billing", **options))) == 20


CONDITIONS: dict[str, set[int]] = {
    "topic = 'orders' and type = 'Odd'": {1, 3, 5, 7, 9},
    "key in ('k0', 'k3')": {0, 3, 5, 8},
    "key <> 'k0'": {1, 2, 3, 4, 6, 7, 8, 9},
    "key is null": {10},
    "key is not null and position > 8": {8, 9},
    "position between 3 and 5": {2, 3, 4},
    "position = 4": {3},
    "transaction_id = 0 and position < 3": {0, 1},
    "transaction_id > 0": set(),
    "recorded_at < timestamp'2000-01-01'": set(),
    "recorded_at > timestamp'2000-01-01' and position <= 2": {0, 1},
    "topic = 'orders' and topic = 'other'": set(),
    "get_json_object(data, '$.n') = '4' and topic = 'orders'": {4},
}


@append_order
@pytest.mark.parametrize("is_pushed", [True, False])
def test_a_filter_gives_the_same_wherever_it_is_answered(
    spark: SparkSession, mp: Milepost, url: str, is_pushed: bool
) -> None:
    append(mp, 10)
    with mp.connect() as conn:
        mp.append(conn, Message("Keyless", {"n": 10}, topic="other"))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", str(is_pushed).lower())
    try:
        found = {text: set(numbers_of(table(spark, url).where(text))) for text in CONDITIONS}
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert found == CONDITIONS


@append_order
def test_pushed_filters_are_not_answered_twice(spark: SparkSession, mp: Milepost, url: str) -> None:
    append(mp, 10)
    condition = (
        "topic = 'orders' and key = 'k1' and position > 2 and recorded_at > timestamp'2020-1-1'"
    )
    filtered = table(spark, url).where(condition)
    assert " Filter " not in plan_of(filtered)
    assert " Filter " in plan_of(table(spark, url).where("data = '{}'"))


def plan_of(messages: Any) -> str:
    text: str = messages._jdf.queryExecution().executedPlan().toString()
    return f" {text}".replace("(1)", "").replace("*", "")


@append_order
def test_only_the_columns_asked_for_are_fetched(
    spark: SparkSession, mp: Milepost, url: str
) -> None:
    append(mp, 3)
    assert table(spark, url, columns="data,key").columns == ["key", "data"]
    chosen = spark.read.format("milepost").schema("data string, position bigint")
    rows = chosen.options(url=url).load().collect()
    assert [list(row.asDict()) for row in rows] == [["data", "position"]] * 3


@append_order
def test_a_column_of_another_type_is_refused(spark: SparkSession, url: str) -> None:
    with pytest.raises(Exception, match="cannot give position"):
        spark.read.format("milepost").schema("position int").options(url=url).load().count()


@append_order
def test_a_misspelt_option_is_refused(spark: SparkSession, url: str) -> None:
    with pytest.raises(Exception, match="'topic' of the Milepost source is not known") as refused:
        table(spark, url, topic="orders")
    said = str(refused.value).partition("JVM stacktrace")[0]
    assert "Traceback" not in said  # of the process in which the source runs
    assert len(said.strip().splitlines()) <= 3


def test_a_range_reads_by_the_primary_key_without_sorting(
    mp: Milepost, url: str, order: LogOrder
) -> None:
    append(mp, 500)
    with mp.connect() as conn:
        conn.execute("analyze milepost.messages")
        whole = Range(Position.BEGINNING, newest(url))
        reader = RangeReader(parse({"url": url}, {}))
        conn.execute("set enable_sort = off")
        statement = "explain " + reader._statement(whole)
        plan = "\n".join(row[0] for row in conn.execute(statement.encode()))
    assert "Index Scan using messages_pkey" in plan
    assert "Sort" not in plan
    assert "One-Time Filter" in plan  # what was removed is asked about once, not for each row


def newest(url: str) -> Position:
    with closing(Planner(parse({"url": url}, {}))) as planner:
        return planner.horizon()


def test_two_reads_of_a_range_are_the_same(spark: SparkSession, mp: Milepost, url: str) -> None:
    append(mp, 50)
    with mp.connect() as conn, conn.transaction():
        mp.append(conn, Message("InFlight", {"n": 50}))
        append(mp, 10, first=51)
        end = newest(url)
        before = table(spark, url, endingPosition=end).collect()
    append(mp, 10, first=61)
    assert sorted(table(spark, url, endingPosition=end, partitions=4).collect()) == sorted(before)
    assert len(before) == 50


def test_times_are_compared_to_the_microsecond(spark: SparkSession, mp: Milepost, url: str) -> None:
    append(mp, 5)
    times = sorted(message.recorded_at for message in mp.read())
    later = table(spark, url).where(f"recorded_at > timestamp'{times[2]}'")
    assert later.count() == sum(time > times[2] for time in times)
    not_yet = times[4] + timedelta(microseconds=1)
    assert table(spark, url).where(f"recorded_at >= timestamp'{not_yet}'").count() == 0


@append_order
def test_a_start_after_the_end_is_refused_unless_it_is_a_checkpoint(mp: Milepost, url: str) -> None:
    """It would read nothing, in silence."""
    append(mp, 20)
    with mp.connect() as conn:
        PostgresCheckpointStore(conn, "milepost").first(
            CheckpointKey("billing"), lambda: Position(0, 15), "me"
        )

    def planned(start: str, **more: str) -> Range:
        given = {"url": url, "startingPosition": start, "endingPosition": "10", **more}
        with closing(Planner(parse(given, {}))) as planner:
            return planner.batch_range()

    for start in ("15", "latest", "2100-01-01T00:00:00+00:00"):
        with pytest.raises(StartAfterEnd, match="0:10"):
            planned(start)
    assert planned("10").is_empty
    assert planned("checkpoint", processor="billing").is_empty


@append_order
def test_times_select_what_was_recorded_from_the_first_and_before_the_second(
    spark: SparkSession, mp: Milepost, url: str
) -> None:
    append(mp, 21)
    times = [message.recorded_at for message in mp.read()]
    first, last = times[7], times[14]
    found = numbers_of(table(spark, url, startingPosition=first, endingPosition=last))
    assert found == [n for n, time in enumerate(times) if first <= time < last]
    assert next(m.data["n"] for m in mp.read(first)) == found[0]
