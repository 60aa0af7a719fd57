"""Pausing a pipeline that runs, and letting it go on, with the commands an operator has."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from milepost import Files, Milepost, Upsert
from milepost.pipeline import admin
from milepost.pipeline.run import orders, session
from milepost.pipeline.run.orders import Orders, ask_orders
from tests.integration.cli.command import Cli
from tests.pipeline.running import (
    expected_per_customer,
    parsed,
    per_customer,
    place,
    rows,
    running,
)
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("spark_directory"),
    pytest.mark.parametrize("order", ["append"]),  # a pause knows no positions
]
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])
CUSTOMERS = "select customer, total, orders from customers order by customer"
HELD_LOOKS = 3  # that a batch was made to wait is proven by its asking again and again


@dataclass
class Looks:
    """How often a batch that wanted to begin was told to wait."""

    held: int = field(default=0)

    def ask(self, *arguments: Any) -> Orders:
        found = ask_orders(*arguments)
        self.held += found.is_held
        return found

    def wait_for_more(self) -> None:
        before = self.held
        wait_until(lambda: self.held >= before + HELD_LOOKS)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()
    monkeypatch.setattr(orders, "ask_orders", found.ask)
    return found


def listed(cli: Cli) -> dict[str, Any]:
    (found,) = cli.run("pipelines", "--json").document()
    return dict(found)


def test_a_running_pipeline_is_paused_and_resumed_by_command(
    mp: Milepost, url: str, spark: SparkSession, looks: Looks
) -> None:
    cli = Cli(url)
    pipeline = mp.pipeline("customers", sink=SINK)(per_customer)
    place(mp, 0, 10)
    with running(pipeline, spark) as run:
        wait_until(pipeline.caught_up)
        assert cli.run("pipelines", "pause", "customers").stdout == "customers: paused\n"
        before = pipeline.position()
        place(mp, 10, 10)
        looks.wait_for_more()
        place(mp, 20, 10)
        looks.wait_for_more()
        assert pipeline.position() == before
        assert rows(mp, CUSTOMERS) == expected_per_customer(10)
        shown = listed(cli)
        assert (shown["state"], shown["position"], shown["lag_messages"]) == ("paused", "0:10", 20)
        assert shown["owner"] == run.runner.status.owner  # it is there, and reports
        for command in ("pipelines", "status"):
            assert "paused" in cli.run(command).stdout

        assert cli.run("pipelines", "resume", "customers").stdout == "customers: resumed\n"
        wait_until(pipeline.caught_up)
        assert rows(mp, CUSTOMERS) == expected_per_customer(30)
        assert listed(cli)["state"] == "running"
        place(mp, 30, 10)
        wait_until(pipeline.caught_up)
    assert rows(mp, CUSTOMERS) == expected_per_customer(40)


def test_a_pause_holds_the_batch_that_is_being_computed(
    mp: Milepost, spark: SparkSession, looks: Looks
) -> None:
    """What is computed and staged is merged when it goes on."""
    entered, leave = threading.Event(), threading.Event()

    @mp.pipeline("customers", sink=SINK, max_messages_per_batch=10)
    def slow(messages: DataFrame) -> DataFrame:
        entered.set()
        assert leave.wait(60)
        return per_customer(messages)

    place(mp, 0, 30)
    with running(slow, spark), mp.connect() as conn:
        assert entered.wait(60)
        admin.set_paused(conn, "milepost", "customers", is_paused=True)
        leave.set()
        looks.wait_for_more()
        assert rows(mp, CUSTOMERS) == []
        admin.set_paused(conn, "milepost", "customers", is_paused=False)
        wait_until(slow.caught_up)
    assert rows(mp, CUSTOMERS) == expected_per_customer(30)


def test_a_paused_pipeline_stops_when_asked_and_stays_paused(
    mp: Milepost, spark: SparkSession, looks: Looks
) -> None:
    pipeline = mp.pipeline("customers", sink=SINK)(per_customer)
    with running(pipeline, spark), mp.connect() as conn:
        wait_until(lambda: rows(mp, "select 1 from milepost.pipelines where state = 'running'"))
        admin.set_paused(conn, "milepost", "customers", is_paused=True)
        place(mp, 0, 10)
        looks.wait_for_more()
    with running(pipeline, spark), mp.connect() as conn:
        looks.wait_for_more()
        assert rows(mp, "select to_regclass('customers')") == [(None,)]
        admin.set_paused(conn, "milepost", "customers", is_paused=False)
        wait_until(pipeline.caught_up)
    assert rows(mp, CUSTOMERS) == expected_per_customer(10)


def test_files_are_paused_too_although_spark_writes_them(
    mp: Milepost, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks()
    monkeypatch.setattr(session, "ask_orders", looks.ask)  # no batch asks here, but the watcher
    path = str(tmp_path / "orders")
    pipeline = mp.pipeline("files", sink=Files(path))(parsed)
    place(mp, 0, 10)
    with running(pipeline, spark), mp.connect() as conn:
        wait_until(pipeline.caught_up)
        admin.set_paused(conn, "milepost", "files", is_paused=True)
        looks.wait_for_more()
        before = pipeline.position()
        place(mp, 10, 10)
        looks.wait_for_more()
        assert pipeline.position() == before
        admin.set_paused(conn, "milepost", "files", is_paused=False)
        wait_until(pipeline.caught_up)
        admin.set_paused(conn, "milepost", "files", is_paused=True)
        looks.wait_for_more()  # and is stopped as it waits
    totals = [row.total for row in spark.read.parquet(path).sort("total").collect()]
    assert totals == list(range(20))
