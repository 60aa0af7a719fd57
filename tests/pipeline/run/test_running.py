"""How pipelines run: beside processors, until stopped, through a restart of the server."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Milepost, RecordedMessage, ToLog, Upsert
from milepost.db import Connection
from milepost.embedded import EmbeddedServer
from milepost.pipeline.run.report import PipelineStatus
from milepost.pipeline.write.staging import Staging
from milepost.retry import Retry
from milepost.runtime import Backoff
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    parsed,
    per_customer,
    place,
    rows,
    runner_of,
    running,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("spark_directory")
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])
CUSTOMERS = "select customer, total, orders from customers order by customer"


@pytest.mark.parametrize("order", ["append"])
def test_mp_run_runs_pipelines_beside_processors(mp: Milepost, spark: SparkSession) -> None:
    seen: list[int] = []

    @mp.processor("seen")
    def see(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.extend(message.data["total"] for message in messages)

    mp.pipeline("customers", sink=SINK)(per_customer)
    mp.pipeline("days", sink=Upsert("days", key=["day", "customer"], add=["total"]))(parsed)
    place(mp, 0, 20)
    mp.run(until="caught_up")
    assert seen == list(range(20))
    assert rows(mp, CUSTOMERS) == expected_per_customer(20)
    assert rows(mp, "select sum(total) from days") == [(sum(range(20)),)]


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.usefixtures("spark")
def test_a_drained_run_ends_with_what_pipelines_and_processors_have_given_each_other(
    mp: Milepost,
) -> None:
    """The processor has caught up before the pipeline's first messages come."""
    seen: list[str] = []

    @mp.processor("seen", topics=["copies"])
    def see(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.extend(message.type for message in messages)

    @mp.pipeline("copies", topics=["orders"], sink=ToLog("copies"))
    def copy(messages: DataFrame) -> DataFrame:
        return messages.select(f.lit("Copied").alias("type"), "data", "key")

    assert not copy.caught_up()
    place(mp, 0, 20)
    mp.run(until="drained")
    assert seen == ["Copied"] * 20
    assert copy.caught_up()  # its own messages are not for it
    place(mp, 20, 1, topic="others")
    assert copy.caught_up()
    place(mp, 21, 1)
    assert not copy.caught_up()


@pytest.mark.parametrize("order", ["append"])
def test_a_pipeline_and_a_processor_cannot_share_a_name(mp: Milepost) -> None:
    mp.pipeline("one", sink=SINK)(per_customer)
    with pytest.raises(ValueError, match="There is a pipeline 'one' already"):
        mp.processor("one")(print)
    with pytest.raises(ValueError, match="There is a pipeline 'one' already"):
        mp.pipeline("one", sink=SINK)(per_customer)


@pytest.mark.parametrize("order", ["append"])
def test_it_follows_the_log_reports_and_stops_when_asked(mp: Milepost, spark: SparkSession) -> None:
    pipeline = mp.pipeline("customers", topics=["orders"], sink=SINK)(per_customer)
    with running(pipeline, spark) as run:
        for n in range(0, 30, 10):
            place(mp, n, 10)
            wait_until(lambda: pipeline.position() == mp.horizon())
        found = "select batches, rows, phases_ms ? 'merge' from milepost.pipelines"
        wait_until(lambda: rows(mp, found)[0][1] == 30)
        assert rows(mp, found)[0][2] is True
        assert rows(mp, "select state, owner, target, is_active from milepost.pipelines") == [
            ("running", run.runner.status.owner, "customers", True)
        ]
    assert rows(mp, CUSTOMERS) == expected_per_customer(30)
    assert rows(mp, "select state, last_error from milepost.pipelines") == [("stopped", None)]


@pytest.mark.parametrize("order", ["append"])
def test_a_stop_lets_the_batch_in_hand_finish(mp: Milepost, spark: SparkSession) -> None:
    entered, leave = threading.Event(), threading.Event()

    @mp.pipeline("customers", sink=SINK)
    def slow(messages: DataFrame) -> DataFrame:
        entered.set()
        leave.wait(30)
        return per_customer(messages)

    place(mp, 0, 10)
    with running(slow, spark) as run:
        assert entered.wait(60)
        run.runner.stop.set()
        leave.set()
    assert rows(mp, CUSTOMERS) == expected_per_customer(10)


@pytest.mark.parametrize("order", ["append"])
def test_an_error_in_the_function_is_raised_as_it_is_and_reported(
    mp: Milepost, spark: SparkSession
) -> None:
    @mp.pipeline("customers", sink=SINK)
    def broken(messages: DataFrame) -> DataFrame:
        raise ZeroDivisionError("nothing to divide by")

    place(mp, 0, 1)
    with pytest.raises(ZeroDivisionError):
        catch_up(broken, spark)
    assert rows(mp, "select state, last_error from milepost.pipelines") == [
        ("failed", "ZeroDivisionError: nothing to divide by")
    ]


@pytest.mark.parametrize("order", ["append"])
def test_a_machine_that_is_too_busy_to_start_python_is_waited_for(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often: nothing is wrong with the pipeline, and nobody has to restart it."""
    stage, write, late = Staging.stage, PipelineStatus.write, 7
    states: list[str] = []
    errors: list[str | None] = []

    def slow(*arguments: Any) -> Any:
        if states.count("waiting") < late:
            raise RuntimeError("SparkException: Python worker failed to connect back.")
        return stage(*arguments)

    def noted(self: PipelineStatus, conn: Connection, error: str | None = None) -> None:
        states.append(self.state)
        errors.append(error)
        write(self, conn, error)

    monkeypatch.setattr(Staging, "stage", slow)
    monkeypatch.setattr(PipelineStatus, "write", noted)
    place(mp, 0, 10)
    runner = runner_of(mp.pipeline("customers", sink=SINK)(per_customer), spark)
    runner._backoff = Backoff(Retry(first_seconds=0.01, longest_seconds=0.01))
    runner.run("caught_up")
    assert rows(mp, CUSTOMERS) == expected_per_customer(10)
    assert "too busy" in str(errors[states.index("waiting")])


@pytest.mark.timeout(400)
def test_it_goes_on_after_a_restart_of_the_server(
    own_server: EmbeddedServer, spark: SparkSession
) -> None:
    mp = Milepost(own_server.start())
    mp.migrate()
    pipeline = mp.pipeline("customers", sink=SINK, max_messages_per_batch=30)(per_customer)
    place(mp, 0, 20)
    with running(pipeline, spark):
        wait_until(lambda: pipeline.position() == mp.horizon())
        place(mp, 20, 100)
        own_server.stop()
        own_server.start()
        wait_until(lambda: pipeline.position() == mp.horizon(), 100)
        place(mp, 120, 30)
        wait_until(lambda: pipeline.position() == mp.horizon(), 100)
    assert rows(mp, CUSTOMERS) == expected_per_customer(150)
