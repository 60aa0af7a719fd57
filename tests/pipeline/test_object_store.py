"""An archive in an object store that Java cannot read, because it has no file system for it: Python
reads it instead, and the rows are the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from milepost import Milepost, Upsert
from milepost.pipeline import history
from milepost.pipeline.frames import files_frame
from milepost.pipeline.start_spark import register_source
from tests.object_store import BUCKET, CREDENTIALS, Store, object_store, refuse_secrets
from tests.pipeline.archived import archive_of
from tests.pipeline.running import catch_up, expected_per_customer, per_customer, place, rows
from tests.pipeline.sourcing import table

pytestmark = pytest.mark.parametrize("order", ["append"])
CUSTOMERS = "select customer, total, orders from customers order by customer"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as started:
        yield started


@pytest.fixture
def addresses(
    store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """One that says where the server is, and one that leaves it to the environment. Java knows
    nothing of `s3a`, and of the variables: Spark's workers are given them as executors on other
    hosts would be."""
    store.make_bucket(monkeypatch)
    place, variables = f"{BUCKET}/spark", CREDENTIALS | store.endpoint
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    context = spark.sparkContext
    with monkeypatch.context() as patched:
        patched.setattr(context, "environment", {**context.environment, **variables})
        register_source(spark)  # with these variables
        yield store.address(f"{place}/1"), f"s3://{place}/2"
    register_source(spark)
    files_frame._unknown.clear()


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())


@pytest.mark.soak  # a store, and Spark with its library
def test_the_same_rows_through_python(
    spark: SparkSession, mp: Milepost, url: str, addresses: tuple[str, str]
) -> None:
    place(mp, 0, 60)
    positions = [message.position for message in mp.read()]
    expected = sorted(table(spark, url).collect())
    for address, end in zip(addresses, (positions[19], positions[39]), strict=True):
        with archive_of(mp, url, address) as archive:
            archive.up_to(end)
            archive.remove(min(end, positions[29]))

    whole = history(spark, url)
    assert "FileScan" not in plan(whole)
    assert sorted(whole.collect()) == expected
    assert sorted(table(spark, url).collect()) == expected

    sink = Upsert("customers", key=["customer"], add=["total", "orders"])
    pipeline = mp.pipeline("customers", topics=["orders"], sink=sink)(per_customer)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(60)
    refuse_secrets(plan(whole) + plan(table(spark, url)) + repr(whole))
