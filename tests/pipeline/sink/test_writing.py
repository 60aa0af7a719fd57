"""`df.write` and `df.writeStream` with `format("milepost")`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from milepost import Milepost
from milepost.db import Connection
from tests.pipeline.running import forget_last_commit
from tests.pipeline.sourcing import append as append_numbers
from tests.pipeline.sourcing import stream

pytestmark = pytest.mark.parametrize("order", ["append"])
EVERYTHING = """
  true as a, cast(1 as tinyint) as b, 2S as c, 3 as d, 4L as e, cast(0.1 as float) as f, 0.2D as g,
  cast(1.50 as decimal(9, 2)) as h, 'i"é' as i, X'00ff' as j, date'2026-01-31' as k,
  timestamp'2026-01-31 12:00:00.123456' as l, timestamp_ntz'2026-01-31 12:00:00.5' as m,
  cast('NaN' as double) as n, cast('-Infinity' as float) as o, map('x', 1, 'y', null) as p,
  array(named_struct('q', 1), null) as q, parse_json('{"z": [1, null]}') as r,
  cast(null as string) as s, map(1, true) as t
"""


def counted(numbers: DataFrame) -> DataFrame:
    return numbers.selectExpr("'Counted' as type", "cast(id as string) as data", "'k' as key")


def write(rows: DataFrame, url: str, **options: str) -> None:
    rows.write.format("milepost").mode("append").options(url=url, **options).save()


def copied(spark: SparkSession, url: str, place: Path, **options: str) -> StreamingQuery:
    """Everything of the topic `orders`, as the topic `copies`."""
    rows = stream(spark, url, topics="orders", maxMessagesPerTrigger=10).select("type", "data")
    writer = rows.writeStream.format("milepost").options(url=url, topic="copies", **options)
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    return query


def data_of(mp: Milepost, topic: str) -> list[Any]:
    return [message.data for message in mp.read(topics=[topic])]


def test_a_dataframe_becomes_messages_in_order(spark: SparkSession, mp: Milepost, url: str) -> None:
    write(counted(spark.range(0, 1000, 1, 3)), url, topic="numbers")
    messages = list(mp.read())
    assert [message.data for message in messages] == list(range(1000))
    assert {(m.topic, m.type, m.key) for m in messages} == {("numbers", "Counted", "k")}


def test_a_column_says_the_topic_and_one_the_metadata(
    spark: SparkSession, mp: Milepost, url: str
) -> None:
    rows = spark.sql("""
        select 'T' as type, '1' as data, 'a' as topic, named_struct('m', 1) as metadata
        union all select 'T', '2', null, null
    """)
    write(rows.coalesce(1), url, topic="b")
    assert [(m.topic, m.data, m.metadata) for m in mp.read()] == [("a", 1, {"m": 1}), ("b", 2, {})]


def test_structs_become_the_json_that_spark_writes(
    spark: SparkSession, mp: Milepost, url: str
) -> None:
    rows = spark.sql(f"select 'T' as type, struct({EVERYTHING}) as data")
    expected = json.loads(rows.select(f.to_json("data")).first()[0])  # type: ignore[index]
    write(rows, url, topic="t")
    assert data_of(mp, "t") == [expected]
    variant = rows.selectExpr("type", "data.r as data")
    write(variant, url, topic="v")
    assert data_of(mp, "v") == [{"z": [1, None]}]


def test_a_failed_task_leaves_nothing(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection
) -> None:
    rows = spark.range(0, 100, 1, 2).selectExpr(
        "'T' as type", "if(id = 99, raise_error('broken'), cast(id as string)) as data"
    )
    with pytest.raises(Exception, match="broken"):
        write(rows, url, topic="t")
    assert data_of(mp, "t") == []
    assert conn.execute("select count(*) from milepost.spark_writes").fetchone() == (0,)


def test_what_cannot_be_written_is_said(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    rows = counted(spark.range(1))
    with pytest.raises(Exception, match=r'cannot replace what is in the log. Use mode\("append"\)'):
        rows.write.format("milepost").mode("overwrite").options(url=url, topic="t").save()
    with pytest.raises(Exception, match="The column 'data' is missing: a message needs it"):
        write(rows.drop("data"), url, topic="t")
    with pytest.raises(Exception, match="'topic' of the Milepost source is missing"):
        write(rows, url)
    with pytest.raises(Exception, match="the log has no path"):
        rows.write.format("milepost").mode("append").options(url=url, topic="t").save("orders")
    grouped = stream(spark, url).groupBy("type").agg(f.max("data").alias("data"))
    writer = grouped.writeStream.format("milepost").options(url=url, topic="t")
    query = writer.outputMode("complete").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match=r'Use outputMode\("append"\)'):
        query.processAllAvailable()
    assert list(mp.read()) == []


def test_a_stream_is_written_once_though_a_batch_is_repeated_and_refused_from_an_old_copy(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    place, copy = tmp_path / "place", tmp_path / "copy"
    append_numbers(mp, 5)
    copied(spark, url, place)
    shutil.copytree(place, copy)
    forget_last_commit(place)
    append_numbers(mp, 15, first=5)  # of which ten are a batch
    copied(spark, url, place)
    assert sorted(each["n"] for each in data_of(mp, "copies")) == list(range(20))
    with pytest.raises(Exception, match="which is in the log already"):
        copied(spark, url, copy)
    assert len(data_of(mp, "copies")) == 20


def test_a_stream_whose_directory_is_lost_is_another_one(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    """It writes again what its source gives, instead of taking it for written."""
    append_numbers(mp, 5)
    copied(spark, url, tmp_path)
    shutil.rmtree(tmp_path)
    append_numbers(mp, 1, first=5)
    copied(spark, url, tmp_path)
    assert sorted(each["n"] for each in data_of(mp, "copies")) == sorted([*range(5), *range(6)])
