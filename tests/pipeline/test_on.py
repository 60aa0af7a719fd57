"""`pipeline.on(rows)`: the output of a pipeline's function without PostgreSQL."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Append, Message, Milepost, Upsert

NOWHERE = "postgresql://no-server.invalid/none"  # nothing connects to it


def test_a_function_gets_what_it_would_get_in_a_run(spark: SparkSession) -> None:
    mp = Milepost(NOWHERE)

    @mp.pipeline(
        "revenue", topics=["orders"], types=["OrderPlaced"], sink=Upsert("r", key=["id"], add=["n"])
    )
    def revenue(messages: DataFrame) -> DataFrame:
        order = f.from_json("data", "order int, total bigint").alias("o")
        return messages.select(order, "key", "position").select("o.*", "key", "position")

    rows = revenue.on(
        [
            Message("OrderPlaced", {"order": 1, "total": 42}, key="o-1", topic="orders"),
            {"type": "OrderPlaced", "data": {"order": 2, "total": 7}, "topic": "orders"},
            Message("OrderPlaced", {"order": 3}, topic="another"),
            Message("OrderPaid", {"order": 1}, topic="orders"),
        ]
    ).collect()
    assert [tuple(row) for row in rows] == [(1, 42, "o-1", 1), (2, 7, None, 2)]


def test_it_gets_the_columns_that_it_wants(spark: SparkSession) -> None:
    mp = Milepost(NOWHERE)

    @mp.pipeline("totals", columns=["content", "recorded_at"], sink=Append("totals"))
    def totals(messages: DataFrame) -> DataFrame:
        assert messages.columns == ["recorded_at", "content"]
        return messages.select(f.expr("content:total::int as total"))

    assert totals.on([Message("A", {"total": 5})]).collect()[0].total == 5
    assert totals.on([]).collect() == []
