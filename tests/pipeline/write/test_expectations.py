"""Expectations of a pipeline's rows, through the writer: counted once, dropped or set aside in the
transaction of the merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from milepost import Append, Milepost, Position, ToLog, ToQueue, Upsert, db
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import (
    CompetingPipeline,
    ExpectationViolated,
    InvalidExpectation,
    InvalidOutput,
)
from milepost.pipeline import admin
from milepost.pipeline.definition import PipelineOptions
from milepost.pipeline.expectations import Expectations, OnViolation
from milepost.pipeline.run.report import PipelineStatus
from milepost.pipeline.sinks import PostgresSink
from milepost.pipeline.source import Range, complete_conninfo
from milepost.pipeline.versions import drop, swap
from milepost.pipeline.write import RangeWriter, SparkBatch, staging
from tests.pipeline.running import rows

pytestmark = pytest.mark.parametrize("order", ["append"])
KEY = CheckpointKey("revenue")
TOTALS = Upsert("totals", key=["day"], add=["total"])
POSITIVE = {"total is positive": "total > 0"}
BOTH = POSITIVE | {"day is known": "day is not null and day <> '?'"}
SCHEMA = "day string, total bigint"
# Two violate the first condition, one of them because it is null, and one of those the second too.
ROWS = [("mon", 5), ("mon", 7), ("tue", -1), ("?", None), ("wed", 3)]
COUNTS = "select expectation, passed, violated from milepost.pipeline_expectations order by 1"
COUNTED = [("day is known", 4, 1), ("total is positive", 3, 2)]
OUTPUT = "select day, total from totals order by day"


@pytest.fixture(params=["driver", "executors"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "executors":
        monkeypatch.setattr(staging, "SMALL_ROWS", 0)


@pytest.fixture
def registered(conn: Connection, url: str) -> Callable[..., RangeWriter]:
    """A writer of a version, whose pipeline is registered and at the beginning."""

    def writer(
        conditions: dict[str, str],
        on_violation: OnViolation,
        sink: PostgresSink = TOTALS,
        **of: Any,
    ) -> RangeWriter:
        options = PipelineOptions(KEY.processor, sink, **of)
        PipelineStatus(owner="me", schema="milepost", options=options).register(conn)
        PostgresCheckpointStore(conn).store(options.key, None, Position.BEGINNING)
        return RangeWriter(
            key=options.key,
            sink=sink,
            conn=conn,
            conninfo=complete_conninfo(url, {}),
            owner="me",
            schema="milepost",
            expectations=Expectations(conditions, on_violation),
        )

    return writer


@pytest.fixture
def output(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA)


def range_(number: int) -> Range:
    return Range(Position(0, 10 * number - 10), Position(0, 10 * number))


@contextmanager
def unchanged(mp: Milepost, *queries: str) -> Iterator[None]:
    before = [rows(mp, query) for query in queries]
    yield
    assert [rows(mp, query) for query in queries] == before


@pytest.mark.usefixtures("_both_ways")
def test_rows_that_violate_are_dropped_and_counted(
    mp: Milepost, registered: Callable[..., RangeWriter], output: DataFrame
) -> None:
    writer = registered(BOTH, "drop")
    for number in (1, 2):
        assert writer.apply(output, range_(number)).rows == len(ROWS)
    assert rows(mp, OUTPUT) == [("mon", 24), ("wed", 6)]
    assert rows(mp, COUNTS) == [(name, 2 * good, 2 * bad) for name, good, bad in COUNTED]


def test_rows_are_set_aside_beside_the_target(
    mp: Milepost, registered: Callable[..., RangeWriter], output: DataFrame
) -> None:
    registered(BOTH, "set_aside").apply(output, range_(1))
    assert rows(mp, OUTPUT) == [("mon", 12), ("wed", 3)]
    assert rows(mp, COUNTS) == COUNTED
    kept = "select data, expectations, last_position from {} order by data ->> 'day'"
    expected = [
        ({"day": "?", "total": None}, ["total is positive", "day is known"], 10),
        ({"day": "tue", "total": -1}, ["total is positive"], 10),
    ]
    assert rows(mp, kept.format("totals__rejected")) == expected
    assert rows(mp, kept.format("totals__rejected__v1")) == expected


def test_a_violation_fails_the_batch_with_the_expectation_and_a_key(
    mp: Milepost, registered: Callable[..., RangeWriter], output: DataFrame
) -> None:
    writer = registered(POSITIVE, "fail")
    writer.apply(output.filter("total > 0"), range_(1))
    with unchanged(mp, OUTPUT, COUNTS), pytest.raises(ExpectationViolated) as caught:
        writer.apply(output, range_(2))
    assert "2 of 5 rows" in str(caught.value)
    assert "'total is positive', which is (total > 0), for example (day) = (" in str(caught.value)
    found = PostgresCheckpointStore(writer.conn).load(KEY)
    assert found is not None
    assert found.position == Position(0, 10)


def test_a_batch_that_is_rolled_back_counts_nothing(
    mp: Milepost, registered: Callable[..., RangeWriter], output: DataFrame
) -> None:
    """Killed, fenced, or refused by the server after its rows were sifted."""
    writer = registered(BOTH, "set_aside")
    writer.apply(output, range_(1))
    everything = (OUTPUT, COUNTS, "select data from totals__rejected")
    with unchanged(mp, *everything), pytest.raises(CompetingPipeline):
        writer.apply(output, range_(1))
    too_large = output.selectExpr("day", "if(day = 'mon', 9223372036854775800, total) as total")
    with unchanged(mp, *everything), pytest.raises(Exception, match="bigint out of range"):
        writer.apply(too_large, range_(2))
    writer.apply(output, range_(2))
    assert rows(mp, COUNTS) == [(name, 2 * good, 2 * bad) for name, good, bad in COUNTED]
    assert rows(mp, OUTPUT) == [("mon", 24), ("wed", 6)]


def test_a_batch_of_a_stateful_query_that_spark_replays_counts_once(
    mp: Milepost, conn: Connection, registered: Callable[..., RangeWriter], output: DataFrame
) -> None:
    """It may leave the checkpoint where it is."""
    writer = registered(BOTH, "drop")
    db.run(conn, "milepost", "pipeline_begin", pipeline="revenue", version=1, run="r")
    for _ in range(2):
        writer.apply(output, Range(Position.BEGINNING, Position.BEGINNING), SparkBatch("r", 0))
    assert rows(mp, COUNTS) == COUNTED
    assert rows(mp, OUTPUT) == [("mon", 12), ("wed", 3)]


@pytest.mark.parametrize(
    ("sink", "columns", "kept", "left"),
    [
        (
            Append("lines"),
            ["day", "struct(total) as inner", "array(total) as list"],
            {"day": "tue", "inner": {"total": -1}, "list": [-1]},
            "select count(*) from lines",
        ),
        (
            Upsert("lines", key=["day"]),
            ["day", "total"],
            {"day": "tue", "total": -1},
            "select count(*) from lines",
        ),
        (
            ToLog("out"),
            ["'Total' as type", "struct(total) as data", "day as key"],
            {"type": "Total", "data": {"total": -1}, "key": "tue"},
            "select count(*) from milepost.messages where topic = 'out'",
        ),
        (
            ToQueue("jobs"),
            ["struct(total) as content", "day as unique_key"],
            {"content": {"total": -1}, "unique_key": "tue"},
            "select count(*) from milepost.jobs where channel = 'jobs'",
        ),
    ],
)
def test_every_sink_in_postgresql_sifts(
    mp: Milepost,
    registered: Callable[..., RangeWriter],
    spark: SparkSession,
    sink: PostgresSink,
    columns: list[str],
    kept: dict[str, Any],
    left: str,
) -> None:
    given = spark.createDataFrame([("mon", 5), ("tue", -1), ("wed", 3)], SCHEMA)
    (name,) = {"day", "key", "unique_key"} & set(kept)
    writer = registered({"not tuesday": f"{name} <> 'tue'"}, "set_aside", sink)
    writer.apply(given.selectExpr(*columns), range_(1))
    assert rows(mp, left) == [(2,)]
    with mp.connect() as conn:
        (status,) = admin.list_pipelines(conn, "milepost")
    assert status.expectations == [{"name": "not tuesday", "passed": 2, "violated": 1}]
    ((_, names, data, *_),) = rows(mp, f"table {status.rejected}")
    assert (names, data) == (["not tuesday"], kept)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("totl > 0", "UNRESOLVED_COLUMN"),
        ("total >", "PARSE_SYNTAX_ERROR"),
        ("total", "FILTER_NOT_BOOLEAN"),
        ("sum(total) > 0", "INVALID_WHERE_CONDITION"),
        ("total > 0 as positive", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_what_is_no_condition_of_a_row_is_refused(
    registered: Callable[..., RangeWriter], output: DataFrame, condition: str, words: str
) -> None:
    with pytest.raises(InvalidExpectation, match=f"'wrong'.*{words}") as caught:
        registered({"wrong": condition}, "drop").apply(output, range_(1))
    assert "\n" not in str(caught.value)


def test_a_column_with_the_name_of_the_marks_is_refused(
    registered: Callable[..., RangeWriter], output: DataFrame
) -> None:
    renamed = output.withColumnRenamed("total", "_violated")
    with pytest.raises(InvalidOutput, match=r"'_violated'.*Rename it"):
        registered(POSITIVE, "drop", Append("lines")).apply(renamed, range_(1))


def test_each_version_has_its_own_counts_and_rows(
    mp: Milepost, conn: Connection, registered: Callable[..., RangeWriter], output: DataFrame
) -> None:
    """The view shows those of the active version once its driver has set rows aside."""
    registered(POSITIVE, "set_aside").apply(output, range_(1))
    rebuilt = registered(BOTH, "set_aside", version=2)
    rebuilt.apply(output, range_(1))
    shown = "select distinct cardinality(expectations) from totals__rejected order by 1"
    assert rows(mp, shown) == [(1,)]
    assert swap(conn, "revenue", "milepost", 1, 2) == "swapped"
    rebuilt.epoch, rebuilt._prepared = 1, None  # the next session
    rebuilt.apply(output, range_(2))
    assert rows(mp, shown) == [(1,), (2,)]
    drop(conn, KEY, "milepost")
    assert rows(mp, "select distinct version from milepost.pipeline_expectations") == [(2,)]
    tables = "select relname from pg_class where relname like '%rejected__v%' and relkind = 'r'"
    assert rows(mp, tables) == [("totals__rejected__v2",)]


def test_a_version_whose_rows_the_view_still_shows_can_be_dropped(
    mp: Milepost, conn: Connection, registered: Callable[..., RangeWriter], output: DataFrame
) -> None:
    registered(POSITIVE, "set_aside").apply(output, range_(1))
    registered(POSITIVE, "drop", version=2).apply(output, range_(1))
    assert swap(conn, "revenue", "milepost", 1, 2) == "swapped"
    drop(conn, KEY, "milepost")
    assert rows(mp, "select from pg_class where relname like '%rejected%'") == []
