"""Rows of a key are added up before they are staged, by tasks or by Spark: as the server does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Message, Milepost, Upsert, append
from milepost.errors import BadMessage, InvalidOutput
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.write import spark_sums, staging
from milepost.pipeline.write.column_types import columns_of
from milepost.pipeline.write.presum import Sums
from milepost.sql import LogOrder
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    parsed,
    per_customer,
    place,
    rows,
)

pytestmark = pytest.mark.usefixtures("spark_directory", "way")
CUSTOMERS = "select customer, total, orders from customers order by customer"


@pytest.fixture
def order() -> LogOrder:
    """Nothing of this depends on the order."""
    return "append"


@pytest.fixture(params=["tasks", "spark"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As large batches are staged, on few cores and on many."""
    monkeypatch.setattr(staging, "SMALL_ROWS", 0)
    if request.param == "spark":
        monkeypatch.setattr(spark_sums, "LEAST_CORES", 1)
        monkeypatch.setattr(spark_sums, "LEAST_MESSAGES", 0)
    return str(request.param)


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[staging.Staged]:
    """What was staged, batch by batch."""
    found: list[staging.Staged] = []
    stage = staging.Staging.stage

    def noting(self: staging.Staging, *arguments: Any) -> staging.Staged:
        found.append(stage(self, *arguments))
        return found[-1]

    monkeypatch.setattr(staging.Staging, "stage", noting)
    return found


def adding(mp: Milepost, key: list[str], add: list[str], *columns: str) -> Pipeline:
    """A pipeline into the table `sums` whose columns are expressions of `k` and `n`, which are
    strings. On four tasks."""

    @mp.pipeline("sums", sink=Upsert("sums", key=key, add=add), partitions=4)
    def sums(messages: DataFrame) -> DataFrame:
        given = f.from_json("data", "k string, n string").alias("given")
        return messages.select(given).select("given.*").selectExpr(*columns)

    return sums


def per_day(messages: DataFrame) -> DataFrame:
    return parsed(messages).select("day", "customer")


def give(mp: Milepost, *pairs: tuple[str | None, object]) -> None:
    with mp.connect() as conn:
        for k, n in pairs:
            append(conn, Message("N", {"k": k, "n": None if n is None else str(n)}))


def test_tasks_stage_their_own_sums_and_spark_one_row_for_each_key(
    mp: Milepost, spark: SparkSession, staged: list[staging.Staged], way: str
) -> None:
    pipeline = mp.pipeline(
        "customers",
        sink=Upsert("customers", key=["customer"], add=["total", "orders"]),
        partitions=4,
    )(per_customer)
    place(mp, 0, 100)
    catch_up(pipeline, spark)
    place(mp, 100, 100)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(200)
    copied = 40 if way == "tasks" else 10
    assert [(one.rows, one.copied) for one in staged] == [(100, copied)] * 2
    assert rows(mp, "select rows from milepost.pipelines") == [(200,)]


def test_every_type_is_added_up(
    mp: Milepost, spark: SparkSession, staged: list[staging.Staged], way: str
) -> None:
    kinds = ("tinyint", "smallint", "int", "bigint", "decimal(5,2)", "decimal(27,2)", "float")
    columns = [f"cast(n as {kind}) as a{n}" for n, kind in enumerate((*kinds, "double"))]
    names = [f"a{n}" for n in range(len(columns))]
    pipeline = adding(mp, ["k"], names, "k", *columns)
    give(mp, *[("a", n) for n in range(-3, 10)], ("b", None), ("b", None))
    catch_up(pipeline, spark)
    found = rows(mp, "select * from sums order by k")
    assert found == [("a", *[39] * len(names)), ("b", *[None] * len(names))]
    assert staged[0].copied == (5 if way == "tasks" else 2)


def test_decimals_without_room_for_a_sum_are_added_up_by_the_server(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = adding(mp, ["k"], ["n"], "k", "cast(n as decimal(38,0)) as n")
    give(mp, *[("a", 10**37)] * 9)
    catch_up(pipeline, spark)
    assert rows(mp, "select n from sums") == [(9 * 10**37,)]
    give(mp, ("a", 10**37))
    with pytest.raises(BadMessage, match="numeric field overflow"):
        catch_up(pipeline, spark)


def test_every_type_is_a_key(mp: Milepost, spark: SparkSession) -> None:
    columns = {
        "text": "k",
        "flag": "k = 'a'",
        "byte": "cast(length(k) as tinyint)",
        "long": "cast(length(k) as bigint)",
        "exact": "cast('1.50' as decimal(4,2))",
        "bytes": "cast(k as binary)",
        "day": "date'2026-01-02'",
        "at": "timestamp'2026-01-02 03:04:05'",
        "local": "cast('2026-01-02 03:04:05' as timestamp_ntz)",
        "list": "array(k)",
        "double": "0.5D",
    }
    for name, expression in columns.items():
        mp._pipelines.pop("sums", None)
        pipeline = adding(mp, ["key"], ["n"], f"{expression} as key", "cast(n as int) as n")
        with mp.connect() as conn:
            conn.execute("drop view if exists sums; drop table if exists sums__v1")
            conn.execute("delete from milepost.messages")
            conn.execute("delete from milepost.checkpoints; delete from milepost.pipelines")
        give(mp, *[("a", 1)] * 8)
        catch_up(pipeline, spark)
        assert rows(mp, "select n from sums") == [(8,)], name


def test_a_sum_that_the_column_cannot_hold_names_the_column(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = adding(mp, ["k"], ["n"], "k", "cast(n as bigint) as n")
    give(mp, *[("a", 2**62)] * 2, ("b", 1))
    with pytest.raises(BadMessage, match="bigint out of range") as caught:
        catch_up(pipeline, spark)
    first, second, _ = (message.position for message in mp.read())
    assert caught.value.position == str(second)
    assert str(caught.value.__cause__) == (
        "Pipeline 'sums': the column 'n' of its output has a sum that its type cannot hold (bigint "
        "out of range). Cast it to a larger type, such as decimal(38,0), and raise the pipeline's "
        "version: a new version gets a new table. Nothing was written."
    )
    assert rows(mp, "select k, n from sums") == [("a", 2**62)]
    assert pipeline.position() == first


@pytest.mark.parametrize(
    ("kind", "numbers", "said"),
    [
        ("smallint", [30_000] * 4, "smallint out of range"),
        ("int", [2**31 - 1] * 4, "integer out of range"),
        ("decimal(3,1)", ["99.9"] * 4, "numeric field overflow"),
    ],
)
def test_the_same_for_every_type(
    mp: Milepost, spark: SparkSession, kind: str, numbers: list[object], said: str
) -> None:
    pipeline = adding(mp, ["k"], ["n"], "k", f"cast(n as {kind}) as n")
    give(mp, *[("a", number) for number in numbers])
    with pytest.raises(BadMessage, match=said):
        catch_up(pipeline, spark)


def test_sums_are_exact_up_to_both_ends(mp: Milepost, spark: SparkSession) -> None:
    """Also where a part of them would not fit."""
    pipeline = adding(mp, ["k"], ["n"], "k", "cast(n as bigint) as n")
    most = 2**63 - 1
    give(mp, *[("low", -(2**62))] * 2, ("high", most), ("both", most), ("both", most))
    give(mp, ("both", -most), ("both", -5), ("high", 0))
    catch_up(pipeline, spark)
    assert rows(mp, "select k, n from sums order by k") == [
        ("both", most - 5),
        ("high", most),
        ("low", -(2**63)),
    ]


def test_a_null_in_the_key_is_refused(mp: Milepost, spark: SparkSession) -> None:
    pipeline = adding(mp, ["k"], ["n"], "k", "cast(n as int) as n")
    give(mp, ("a", 1), (None, 2), (None, 3))
    with pytest.raises(BadMessage, match=r"'k'.*is null in some row.*part of the key"):
        catch_up(pipeline, spark)
    assert rows(mp, "select k, n from sums") == [("a", 1)]  # what comes before it


def test_a_null_adds_nothing(mp: Milepost, spark: SparkSession) -> None:
    pipeline = adding(mp, ["k"], ["n"], "k", "cast(n as bigint) as n")
    give(mp, ("a", None), ("a", 5), ("b", None), ("a", None))
    catch_up(pipeline, spark)
    give(mp, ("a", None), ("b", None), ("a", 2))
    catch_up(pipeline, spark)
    assert rows(mp, "select k, n from sums order by k") == [("a", 7), ("b", None)]


def test_floating_point_keys_are_compared_by_the_server(mp: Milepost, spark: SparkSession) -> None:
    """Which takes -0.0 and 0.0 for equal, and keeps the first one as it is."""
    pipeline = adding(mp, ["key"], ["n"], "cast(k as double) as key", "cast(n as int) as n")
    give(mp, ("-0.0", 1), ("-0.0", 2), ("NaN", 4), ("NaN", 8), ("1.5", 16))
    catch_up(pipeline, spark)
    give(mp, ("0.0", 32), ("NaN", 64))
    catch_up(pipeline, spark)
    zero, one, nan = rows(mp, "select key, key::text as said, n from sums order by sums.key")
    assert zero[1:] == ("-0", 1 + 2 + 32)
    assert one == (1.5, "1.5", 16)
    assert nan[1:] == ("NaN", 4 + 8 + 64)


def test_floating_point_numbers_are_added_up_as_such(mp: Milepost, spark: SparkSession) -> None:
    pipeline = adding(mp, ["k"], ["n"], "k", "cast(n as double) as n")
    give(mp, ("a", "0.5"), ("a", "0.25"), ("nan", "NaN"), ("nan", 1))
    give(mp, ("inf", "Infinity"), ("inf", 1), ("both", "Infinity"), ("both", "-Infinity"))
    catch_up(pipeline, spark)
    found = rows(mp, "select k, n::text from sums order by k")
    assert found == [("a", "0.75"), ("both", "NaN"), ("inf", "Infinity"), ("nan", "NaN")]


def test_strings_with_a_collation_are_compared_by_the_server(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = adding(mp, ["key"], ["n"], "k collate UTF8_LCASE as key", "cast(n as int) as n")
    give(mp, *[("a", 1), ("A", 2)] * 3)
    catch_up(pipeline, spark)
    assert rows(mp, "select key, n from sums order by n") == [("a", 3), ("A", 6)]


def test_columns_may_have_the_names_of_sparks_sums_and_any_order(
    mp: Milepost, spark: SparkSession
) -> None:
    columns = ("cast(n as int) as `0`", "k as `2`", "cast(n as bigint) as `a b`", "k as `1`")
    pipeline = adding(mp, ["1", "2"], ["a b", "0"], *columns)
    give(mp, ("a", 1), ("b", 2), ("a", 3))
    catch_up(pipeline, spark)
    found = rows(mp, 'select "2", "1", "0", "a b" from sums order by 1')
    assert found == [("a", "a", 4, 4), ("b", "b", 2, 2)]


def test_a_key_alone_is_there_once(mp: Milepost, spark: SparkSession) -> None:
    pipeline = adding(mp, ["k"], [], "k")
    give(mp, ("a", 1), ("b", 1), ("a", 1))
    catch_up(pipeline, spark)
    assert rows(mp, "select k from sums order by k") == [("a",), ("b",)]


def test_no_rows_move_the_checkpoint(
    mp: Milepost, spark: SparkSession, staged: list[staging.Staged]
) -> None:
    @mp.pipeline("none", sink=Upsert("none", key=["k"], add=["n"]), partitions=2)
    def none(messages: DataFrame) -> DataFrame:
        return messages.where("false").select(f.col("key").alias("k"), f.lit(1).alias("n"))

    place(mp, 0, 10)
    catch_up(none, spark)
    assert none.position() == mp.horizon()
    assert [(one.rows, one.copied, one.attempts) for one in staged] == [(0, 0, [])]


def test_an_array_cannot_be_added_up(mp: Milepost, spark: SparkSession) -> None:
    pipeline = adding(mp, ["k"], ["n"], "k", "array(cast(n as int)) as n")
    give(mp, ("a", 1))
    with pytest.raises(InvalidOutput, match=r"'n'.*integer\[\], which cannot be added up"):
        catch_up(pipeline, spark)


def test_the_plan_shows_no_secrets(spark: SparkSession, way: str) -> None:
    df = spark.range(1).selectExpr("string(id) as k", "id as n")
    columns = columns_of("p", df.schema)
    in_spark = spark_sums.spark_sums(columns[:1], columns[1:])
    assert in_spark is not None
    by_task = Sums(("k",), ("n",))
    copying = staging.Staging("postgresql://ada:s3cret@host/db", "milepost", "staging_p")
    grouped, sums = (in_spark.of(df, 2), in_spark) if way == "spark" else (df, by_task)
    plan = grouped.mapInArrow(
        staging.copy_function(copying, sums), "n bigint"
    )._jdf.queryExecution()
    assert "MapInArrow" in plan.toString()
    assert ("HashAggregate" in plan.toString()) is (way == "spark")
    assert "s3cret" not in plan.toString()


@pytest.fixture
def many_partitions(spark: SparkSession) -> Iterator[None]:
    """As a session on a cluster has them, without Spark's own remedy."""
    settings = {"spark.sql.shuffle.partitions": "50", "spark.sql.adaptive.enabled": "false"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, found in before.items():
        assert found is not None
        spark.conf.set(name, found)


@pytest.mark.usefixtures("many_partitions")
def test_the_shuffle_leaves_no_more_tasks_than_cores(
    mp: Milepost, spark: SparkSession, staged: list[staging.Staged]
) -> None:
    pipeline = adding(mp, ["n"], ["one"], "cast(n as int) as n", "1 as one")
    give(mp, *[("k", n) for n in range(100)])
    catch_up(pipeline, spark)
    assert rows(mp, "select count(*), sum(one) from sums") == [(100, 100)]
    assert len(staged[0].attempts) <= 4  # tasks that read; Spark has two cores


def test_with_state_nothing_is_computed_twice(mp: Milepost, spark: SparkSession) -> None:
    """State that is updated twice in a batch would forget the second row of each key."""

    @mp.pipeline(
        "firsts",
        sink=Upsert("firsts", key=["day"], add=["n"]),
        stateful=True,
        output_mode="append",
    )
    def firsts(messages: DataFrame) -> DataFrame:
        seen = per_day(messages).dropDuplicates(["day", "customer"])
        return seen.select("day", f.lit(1).alias("n"))

    place(mp, 0, 100)  # the last 30 repeat the first
    catch_up(firsts, spark)
    assert rows(mp, "select day, n from firsts order by day") == [(f"d{n}", 10) for n in range(7)]
