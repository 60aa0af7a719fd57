"""Where a pipeline's rows go, sink by sink."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Append, Files, Message, Milepost, ToLog, ToQueue, Upsert, append
from milepost.errors import BadMessage, InvalidOutput, PayloadTooLarge
from milepost.pipeline.write import staging
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    parsed,
    per_customer,
    place,
    rows,
)

pytestmark = [
    pytest.mark.parametrize("order", ["append"]),
    pytest.mark.usefixtures("spark_directory"),
]
SMALL_ROWS = staging.SMALL_ROWS
CUSTOMERS = "select customer, total, orders from customers order by customer"


@pytest.fixture(autouse=True)
def _staged_by_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As large batches are, though these are small."""
    monkeypatch.setattr(staging, "SMALL_ROWS", 0)


@pytest.fixture(params=["driver", "executors"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "driver":
        monkeypatch.setattr(staging, "SMALL_ROWS", SMALL_ROWS)


@pytest.mark.usefixtures("_both_ways")
def test_upsert_adds_up_over_rows_and_batches(mp: Milepost, spark: SparkSession) -> None:
    pipeline = mp.pipeline(
        "customers",
        sink=Upsert("customers", key=["customer"], add=["total", "orders"]),
        max_messages_per_batch=30,
    )(per_customer)
    place(mp, 0, 70)
    catch_up(pipeline, spark)
    place(mp, 70, 30)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(100)


def test_upsert_sets_the_columns_that_it_does_not_add(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("last", sink=Upsert("last_order", key=["customer"], add=["orders"]))
    def last(messages: DataFrame) -> DataFrame:
        orders = parsed(messages).groupBy("customer")
        return orders.agg(f.max("total").alias("last"), f.count("*").alias("orders"))

    place(mp, 0, 20)
    catch_up(last, spark)
    place(mp, 20, 10)
    catch_up(last, spark)
    found = rows(mp, "select customer, last, orders from last_order order by customer")
    assert found == [(f"c{n}", 20 + n, 3) for n in range(10)]


def test_a_null_adds_nothing(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("sums", sink=Upsert("sums", key=["k"], add=["n"]))
    def sums(messages: DataFrame) -> DataFrame:
        return messages.select(
            "key", f.get_json_object("data", "$.n").cast("int").alias("n")
        ).select(f.col("key").alias("k"), "n")

    for n in (None, 5, None, 2):
        with mp.connect() as conn:
            append(conn, Message("N", {"n": n}, key="a"), Message("N", {"n": None}, key="b"))
        catch_up(sums, spark)
    assert rows(mp, "select k, n from sums order by k") == [("a", 7), ("b", None)]


def test_a_key_that_comes_twice_with_columns_to_set_is_refused(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = mp.pipeline("twice", sink=Upsert("twice", key=["customer"]))(per_customer)
    place(mp, 0, 11)
    with pytest.raises(InvalidOutput, match=r"\(customer\) = \(c0\).*Group by the key"):
        catch_up(pipeline, spark)
    assert rows(mp, "select count(*) from twice") == [(0,)]
    position = pipeline.position()
    assert position is not None
    assert position.position == 0


def test_a_null_in_the_key_is_refused(mp: Milepost, spark: SparkSession) -> None:
    pipeline = mp.pipeline(
        "nulls", sink=Upsert("nulls", key=["customer"], add=["total", "orders"])
    )(per_customer)
    with mp.connect() as conn:
        append(conn, Message("OrderPlaced", {"total": 1}))
    with pytest.raises(BadMessage, match=r"'customer'.*part of the key") as caught:
        catch_up(pipeline, spark)
    assert isinstance(caught.value.__cause__, InvalidOutput)
    assert caught.value.__cause__.column == "customer"


@pytest.mark.parametrize(
    ("sink", "column"),
    [
        (Upsert("t", key=["nobody"], add=["total"]), "nobody"),
        (Upsert("t", key=["customer"], set=[], add=["total"]), "orders"),
        (Upsert("t", key=["total"], add=["customer"]), "customer"),
        (ToLog("elsewhere"), "type"),
    ],
)
def test_columns_that_do_not_fit_the_sink_are_named(
    mp: Milepost, spark: SparkSession, sink: Upsert | ToLog, column: str
) -> None:
    pipeline = mp.pipeline("misfit", sink=sink)(per_customer)
    place(mp, 0, 1)
    with pytest.raises(InvalidOutput) as caught:
        catch_up(pipeline, spark)
    assert caught.value.column == column
    assert rows(mp, "select to_regclass('t')") == [(None,)]


@pytest.mark.usefixtures("_both_ways")
def test_append_keeps_every_type(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("typed", sink=Append("typed"))
    def typed(messages: DataFrame) -> DataFrame:
        return messages.select(
            f.lit(True).alias("Truth"),
            f.lit(1).cast("tinyint").alias("byte"),
            f.lit(2).cast("smallint").alias("short"),
            f.lit(3).cast("int").alias("int"),
            f.lit(4).cast("bigint").alias("long"),
            f.lit(0.5).cast("float").alias("float"),
            f.lit(0.25).cast("double").alias("double"),
            f.lit("12.34").cast("decimal(10,2)").alias("decimal"),
            f.lit('é"').alias("a text"),
            f.lit(b"\0\1").alias("bytes"),
            f.lit(date(1969, 1, 2)).alias("date"),
            f.lit(datetime(2026, 1, 2, 3, 4, 5, 6, UTC)).alias("at"),
            f.lit("2026-01-02 03:04:05").cast("timestamp_ntz").alias("local"),
            f.array(f.lit("x"), f.lit(None)).alias("texts"),
            f.array(f.lit(1), f.lit(2)).alias("numbers"),
            f.struct(f.lit(1).alias("a"), f.lit("b").alias("b")).alias("struct"),
            f.create_map(f.lit("k"), f.lit(1)).alias("map"),
            f.array(f.struct(f.lit(1).alias("a"))).alias("structs"),
            f.lit(None).cast("string").alias("nothing"),
        )

    place(mp, 0, 1)
    catch_up(typed, spark)
    assert rows(mp, "select * from typed") == [
        (
            True, 1, 2, 3, 4, 0.5, 0.25, Decimal("12.34"), 'é"', b"\0\1", date(1969, 1, 2),
            datetime(2026, 1, 2, 3, 4, 5, 6, UTC), datetime(2026, 1, 2, 3, 4, 5),
            ["x", None], [1, 2], {"a": 1, "b": "b"}, {"k": 1}, [{"a": 1}], None,
        )
    ]  # fmt: skip


def test_a_few_messages_that_give_many_rows_are_staged_by_executors(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SMALL_ROWS", 10)

    @mp.pipeline("many", sink=Append("many"))
    def many(messages: DataFrame) -> DataFrame:
        return messages.select(f.explode(f.sequence(f.lit(1), f.lit(4))).alias("n"))

    place(mp, 0, 3)
    catch_up(many, spark)
    assert rows(mp, "select n, count(*) from many group by n order by n") == [
        (n, 3) for n in range(1, 5)
    ]


def test_append_adds_a_row_for_every_row(mp: Milepost, spark: SparkSession) -> None:
    pipeline = mp.pipeline("all", sink=Append("public.all_orders"), max_messages_per_batch=7)(
        parsed
    )
    place(mp, 0, 20)
    catch_up(pipeline, spark)
    assert rows(mp, "select total from all_orders order by total") == [(n,) for n in range(20)]


def test_a_column_without_a_like_in_postgresql_is_named(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("spans", sink=Append("spans"))
    def spans(messages: DataFrame) -> DataFrame:
        return messages.select(f.expr("interval 1 day").alias("span"))

    place(mp, 0, 1)
    with pytest.raises(InvalidOutput, match=r"'span'.*interval day"):
        catch_up(spans, spark)


def test_to_log_appends_messages_in_the_order_of_the_log(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("shipping", topics=["orders"], sink=ToLog("shipping"), partitions=4)
    def shipping(messages: DataFrame) -> DataFrame:
        return messages.select(
            f.lit("Shipped").alias("type"),
            f.struct(f.get_json_object("data", "$.total").alias("order")).alias("data"),
            "key",
        )

    place(mp, 0, 200)
    catch_up(shipping, spark)
    catch_up(shipping, spark)  # its own messages are not its own input
    found = list(mp.read(topics=["shipping"]))
    assert [message.data["order"] for message in found] == [str(n) for n in range(200)]
    assert {(m.type, m.key == f"c{int(m.data['order']) % 10}") for m in found} == {
        ("Shipped", True)
    }
    assert found[0].metadata == {}


def test_to_log_takes_topic_and_metadata_from_the_row(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("fan", topics=["orders"], sink=ToLog("default-topic"))
    def fan(messages: DataFrame) -> DataFrame:
        topic = f.when(f.col("key") == "c0", f.lit("zero"))
        return messages.select(
            "type", "data", topic.alias("topic"), f.lit('{"by": "fan"}').alias("metadata")
        )

    place(mp, 0, 2)
    catch_up(fan, spark)
    found = [
        (m.topic, m.data["total"], m.metadata) for m in mp.read(topics=["zero", "default-topic"])
    ]
    assert found == [("zero", 0, {"by": "fan"}), ("default-topic", 1, {"by": "fan"})]


@pytest.mark.parametrize(
    ("data", "error"), [("{", InvalidOutput), (f'"{"x" * 2_000_000}"', PayloadTooLarge)]
)
def test_to_log_refuses_what_is_no_message(
    mp: Milepost, spark: SparkSession, data: str, error: type[Exception]
) -> None:
    @mp.pipeline("bad", topics=["orders"], sink=ToLog("bad"))
    def bad(messages: DataFrame) -> DataFrame:
        return messages.select("type", f.lit(data).alias("data"))

    place(mp, 0, 1)
    with pytest.raises(BadMessage) as caught:
        catch_up(bad, spark)
    assert isinstance(caught.value.__cause__, error)
    assert list(mp.read(topics=["bad"])) == []


def test_to_queue_puts_jobs_in_the_order_of_the_log(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("mails", topics=["orders"], sink=ToQueue("mails"), partitions=4)
    def mails(messages: DataFrame) -> DataFrame:
        total = f.get_json_object("data", "$.total").cast("int")
        return messages.select(
            f.struct(total.alias("order")).alias("content"),
            f.when(total >= 198, f.lit("large")).alias("channel"),
            (total % 2).cast("int").alias("priority"),
            f.when(total < 2, f.lit("same")).alias("unique_key"),
        )

    place(mp, 0, 200)
    catch_up(mails, spark)
    catch_up(mails, spark)
    with mp.connect() as conn:
        found = conn.execute(
            "select channel, convert_from(content, 'UTF8')::json ->> 'order', priority "
            "from milepost.jobs order by id"
        ).fetchall()
    # 1 has the unique key of 0, which was unfinished.
    expected = [("mails", str(n), n % 2) for n in range(198) if n != 1]
    assert found == [*expected, ("large", "198", 0), ("large", "199", 1)]


def test_to_queue_refuses_what_is_no_job(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("bad-jobs", topics=["orders"], sink=ToQueue("bad"))
    def bad(messages: DataFrame) -> DataFrame:
        return messages.select(f.lit("{").alias("content"))

    place(mp, 0, 1)
    with pytest.raises(BadMessage, match="'content' of its output is not JSON in some row"):
        catch_up(bad, spark)


def test_files_are_written_by_sparks_own_sink_and_the_checkpoint_follows(
    mp: Milepost, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "orders"
    pipeline = mp.pipeline("files", sink=Files(str(path), partition_by=["day"]))(parsed)
    place(mp, 0, 3)
    catch_up(pipeline, spark)
    place(mp, 3, 3)
    catch_up(pipeline, spark)
    assert pipeline.position() == mp.horizon()
    totals = [row.total for row in spark.read.parquet(str(path)).sort("total").collect()]
    assert totals == list(range(6))
    assert (path / "day=d0").is_dir()
