"""A server that crashes in the middle of a merge, of a running pipeline or of a rebuild."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Milepost, Position, Upsert
from milepost.embedded import EmbeddedServer
from milepost.errors import RebuildFailed
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.rebuild import Progress, Rebuild, Rebuilt
from milepost.pipeline.write.range_writer import RangeWriter, Written
from tests.pipeline.crashing import crash, locked, wait_for_merge
from tests.pipeline.rebuilding import CUSTOMERS, active_version, customers, forget, rebuild_of
from tests.pipeline.running import catch_up, expected_per_customer, parsed, place, rows, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("spark_directory"), pytest.mark.timeout(400)]
COUNT = 200
REPORTED = "select sum(rows) from milepost.pipelines"


@pytest.fixture
def mp(own_server: EmbeddedServer) -> Milepost:
    milepost = Milepost(own_server.start())
    milepost.migrate()
    return milepost


def stateful(mp: Milepost) -> Pipeline:
    """Every customer's orders again, but it is Spark that remembers."""
    forget(mp, "customers")

    @mp.pipeline(
        "customers",
        sink=Upsert("customers", key=["customer"]),
        stateful=True,
        max_messages_per_batch=50,
    )
    def totals(messages: DataFrame) -> DataFrame:
        orders = parsed(messages).groupBy("customer")
        return orders.agg(f.sum("total").alias("total"), f.count("*").alias("orders"))

    return totals


def test_a_crash_in_the_middle_of_a_merge_counts_everything_once(
    mp: Milepost, own_server: EmbeddedServer, spark: SparkSession
) -> None:
    url = own_server.start()
    pipeline = customers(mp, batch=30)
    place(mp, 0, 30)
    with running(pipeline, spark) as run:
        # Reported, too: a report that a crash cuts off may or may not have been counted.
        wait_until(lambda: rows(mp, REPORTED) == [(30,)])
        with locked(url, "customers__v1"):
            place(mp, 30, 60)
            wait_for_merge(url, "^milepost customers")
            crash(own_server)
        own_server.start()
        wait_until(pipeline.caught_up, 100)
        assert run.error is None
        place(mp, 90, 10)
        wait_until(pipeline.caught_up, 100)
    assert rows(mp, CUSTOMERS) == expected_per_customer(100)
    assert rows(mp, REPORTED) == [(100,)]


class Rebuilding:
    """A rebuild in a thread, whose target is locked after its first merge."""

    def __init__(self, work: Rebuild, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work, self.url = work, url
        self.stack = ExitStack()
        self.is_locked = threading.Event()
        self.seen: list[Progress] = []
        self.rebuilt: Rebuilt | None = None
        work.watch = self.seen.append
        self.lock_after_first_merge(monkeypatch)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def lock_after_first_merge(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the thread that merges, which would be at the next one before anybody else looks."""
        merge = RangeWriter.merge

        def merge_and_lock(*arguments: Any) -> Written:
            written = merge(*arguments)
            if not self.is_locked.is_set():
                self.stack.enter_context(locked(self.url, "customers__v2"))
                self.is_locked.set()
            return written

        monkeypatch.setattr(RangeWriter, "merge", merge_and_lock)

    def run(self) -> None:
        self.rebuilt = self.work.run()

    def join(self) -> Rebuilt:
        self.thread.join(150)
        assert self.rebuilt is not None
        return self.rebuilt


@pytest.mark.parametrize("make", [customers, pytest.param(stateful, marks=pytest.mark.soak)])
def test_a_rebuild_goes_on_after_a_crash_in_the_middle_of_a_merge(
    mp: Milepost, own_server: EmbeddedServer, spark: SparkSession, make: Callable[..., Pipeline],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    url = own_server.start()
    pipeline = make(mp)
    place(mp, 0, COUNT)
    catch_up(pipeline, spark)
    rebuilding = Rebuilding(rebuild_of(pipeline, spark, max_messages=50), url, monkeypatch)
    assert rebuilding.is_locked.wait(100)
    wait_for_merge(url, "^milepost (rebuild )?customers")
    crash(own_server)
    rebuilding.stack.close()
    before = len(rebuilding.seen)
    own_server.start()
    rebuilt = rebuilding.join()
    assert (rebuilt.version, active_version(mp)) == (2, 2)
    assert rows(mp, CUSTOMERS) == expected_per_customer(COUNT)
    # What was filled is not filled again: the bar begins anew, with less to do.
    assert {progress.total for progress in rebuilding.seen[:before]} == {COUNT}
    assert 0 < rebuilding.seen[-1].total < COUNT


def test_a_rebuild_whose_server_stays_away_says_to_run_it_again_and_then_goes_on(
    mp: Milepost, own_server: EmbeddedServer, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    place(mp, 0, COUNT)
    work = rebuild_of(pipeline, spark, max_messages=50)
    work.most_losses = 1
    work.setup = replace(work.setup, retry_seconds=0)

    def watch(progress: Progress) -> None:
        if 0 < progress.done < progress.total:
            crash(own_server)

    work.watch = watch
    with pytest.raises(RebuildFailed, match=r"(?s)2 times in a row .* Run the rebuild again"):
        work.run()
    own_server.start()
    assert active_version(mp) is None
    stopped_at = rows(mp, "select transaction_id, position from milepost.checkpoints")
    assert Position(*stopped_at[0]) == Position(0, 50)  # type: ignore[arg-type]  # two numbers

    rebuilt = rebuild_of(pipeline, spark, max_messages=50).run()
    assert (rebuilt.version, rebuilt.rows) == (1, COUNT - 50)
    assert rows(mp, CUSTOMERS) == expected_per_customer(COUNT)
