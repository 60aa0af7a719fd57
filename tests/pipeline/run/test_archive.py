"""Pipelines over a log whose beginning is archived: exactly once over the boundary, also while it
moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Milepost, Position, ToLog, Upsert
from milepost.errors import PipelineError
from milepost.log.history.cold import forget_files
from milepost.pipeline.pipeline import Pipeline
from tests.pipeline.archived import Archive
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    follow,
    per_customer,
    place,
    rows,
    running,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("spark_directory")
append_order = pytest.mark.parametrize("order", ["append"])
CUSTOMERS = "select customer, total, orders from customers order by customer"
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])


def from_content(messages: DataFrame) -> DataFrame:
    """What `per_customer` does, of a VARIANT."""
    assert messages.columns == ["content"]
    return messages.select(
        f.variant_get("content", "$.customer", "string").alias("customer"),
        f.variant_get("content", "$.total", "bigint").alias("total"),
        f.lit(1).cast("bigint").alias("orders"),
    )


def customers(
    mp: Milepost,
    at_batch: dict[int, Callable[[], None]] | None = None,
    columns: Sequence[str] | None = None,
) -> Pipeline:
    """In batches of at most ten. `at_batch`: what is to happen as a batch's output is asked for."""
    calls = 0

    def function(messages: DataFrame) -> DataFrame:
        nonlocal calls
        calls += 1
        (at_batch or {}).get(calls, lambda: None)()
        return per_customer(messages) if columns is None else from_content(messages)

    return mp.pipeline(
        "customers", topics=["orders"], sink=SINK, max_messages_per_batch=10, columns=columns
    )(function)


def positions_of(mp: Milepost) -> list[Position]:
    return [message.position for message in mp.read()]


def test_once_while_messages_are_archived_and_removed(
    mp: Milepost, spark: SparkSession, archive: Archive
) -> None:
    """Ahead of the pipeline, too, as if it had no gate: what is planned for the table is read from
    a file, and what is planned for a file from another."""
    place(mp, 0, 95)
    positions = positions_of(mp)

    def move(end: int) -> Callable[[], None]:
        def moved() -> None:
            archive.up_to(positions[end])
            archive.remove(positions[end])

        return moved

    archive.up_to(positions[14])
    catch_up(customers(mp, {2: move(29), 4: move(62), 6: move(77)}), spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(95)


def test_everything_archived_and_removed(
    mp: Milepost, spark: SparkSession, archive: Archive, spark_directory: Path
) -> None:
    place(mp, 0, 45)
    positions = positions_of(mp)
    archive.up_to(positions[24], positions[-1])
    archive.remove(positions[-1])
    pipeline = customers(mp)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(45)
    assert pipeline.position() == positions[-1]
    catch_up(pipeline, spark)
    place(mp, 45, 5)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(50)


@append_order
def test_what_is_not_selected_moves_the_checkpoint(
    mp: Milepost, spark: SparkSession, archive: Archive
) -> None:
    place(mp, 0, 30, topic="elsewhere")
    positions = positions_of(mp)
    archive.up_to(positions[-1])
    archive.remove(positions[-1])
    pipeline = customers(mp)
    catch_up(pipeline, spark)
    assert (rows(mp, CUSTOMERS), pipeline.position()) == ([], positions[-1])


@append_order
def test_content_over_the_boundary_and_behind_it(
    mp: Milepost, spark: SparkSession, archive: Archive
) -> None:
    place(mp, 0, 40)
    archive.up_to(positions_of(mp)[24])
    archive.remove(positions_of(mp)[24])
    pipeline = customers(mp, columns=["content"])
    with running(pipeline, spark):
        wait_until(lambda: pipeline.position() == positions_of(mp)[-1])
        place(mp, 40, 10)
        wait_until(lambda: rows(mp, CUSTOMERS) == expected_per_customer(50))


@append_order
def test_a_run_that_goes_on_reads_what_is_archived_and_removed(
    mp: Milepost, spark: SparkSession, archive: Archive
) -> None:
    place(mp, 0, 9)
    positions = positions_of(mp)
    archive.up_to(positions[6])
    archive.remove(positions[6])
    follow(customers(mp), spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(9)


@append_order
@pytest.mark.parametrize("harm", ["damaged", "missing"])
def test_a_file_that_cannot_be_read_matters_only_if_the_rows_are_gone(
    mp: Milepost, url: str, spark: SparkSession, archive: Archive, harm: str
) -> None:
    place(mp, 0, 40)
    positions = positions_of(mp)
    archive.up_to(positions[19])
    file, _ = *archive.up_to(positions[29]), archive.up_to(positions[34])

    def spoil() -> None:
        """When it was opened and found in order."""
        if harm == "damaged":
            archive.damage(file)
        else:
            archive.path(file).unlink()

    catch_up(customers(mp, {4: spoil}), spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(40)

    archive.remove(positions[29])
    forget_files()
    what = "cannot be read: its SHA-256" if harm == "damaged" else "is not there"
    again = Milepost(url).pipeline("again", sink=Upsert("again", key=["customer"], add=["total"]))(
        lambda messages: per_customer(messages).drop("orders")
    )
    with pytest.raises(PipelineError, match=f"'again': .*{file.name} of the archive {what}"):
        catch_up(again, spark)
    assert rows(mp, "select from again") == []


@append_order
def test_items_are_made_in_the_order_of_the_log(
    mp: Milepost, spark: SparkSession, archive: Archive
) -> None:
    place(mp, 0, 60)
    positions = positions_of(mp)
    archive.up_to(positions[24], positions[49])
    archive.remove(positions[29])
    echo = mp.pipeline("echo", topics=["orders"], sink=ToLog("echoes"))(
        lambda messages: messages.select(f.lit("Echo").alias("type"), "data")
    )
    catch_up(echo, spark)
    assert [message.data["total"] for message in mp.read(topics=["echoes"])] == list(range(60))
