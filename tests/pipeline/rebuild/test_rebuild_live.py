"""Rebuilding while the old version serves and is written, and while others interfere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from psycopg import OperationalError
from pyspark.sql import SparkSession

from milepost import Milepost
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import CompetingPipeline, OtherVersionActive, RebuildFailed
from milepost.pipeline import admin, versions
from milepost.pipeline.rebuild import swap
from milepost.pipeline.rebuild.rebuild import Rebuild, Rebuilt
from milepost.pipeline.rebuild.swap import Progress
from milepost.pipeline.write import RangeWriter
from tests.chaos.pipelines.sabotage import COMPARED_CHECKPOINTS
from tests.chaos.processors.sabotage import STORE_WITHOUT_COMPARING
from tests.pipeline.rebuilding import (
    CUSTOMERS,
    Onlooker,
    active_version,
    customers,
    customers_with_twice,
    in_thread,
    rebuild_of,
    tables,
)
from tests.pipeline.running import (
    Running,
    catch_up,
    expected_per_customer,
    orders,
    place,
    rows,
    runner_of,
    running,
)
from tests.sabotage import replace_in
from tests.waiting import wait_until as wait

pytestmark = [
    pytest.mark.parametrize("order", ["append"]),
    pytest.mark.usefixtures("spark_directory"),
]


def wait_until(condition: Callable[[], object]) -> None:
    """Each look is a connection: not too often."""
    wait(condition, seconds=100, look_seconds=0.2)


def has_target(mp: Milepost) -> bool:
    return rows(mp, "select to_regclass('customers')")[0][0] is not None


@dataclass
class Writer:
    """Appends one order after the other, so that every prefix of the log is known."""

    mp: Milepost
    count: int
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with self.mp.connect() as conn:
            while not self.stop.wait(0.05):
                self.mp.append(conn, *orders(self.count, 1))
                self.count += 1


def test_the_target_is_a_prefix_of_the_log_at_every_moment(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp, batch=1_000)
    place(mp, 0, 1_000)
    writer, onlooker = Writer(mp, 1_000), Onlooker(mp)
    with running(pipeline, spark) as old:
        wait_until(lambda: has_target(mp))
        with in_thread(onlooker), in_thread(writer):
            rebuilt = rebuild_of(pipeline, spark, max_messages=300).run()
            at_swap = len(onlooker.seen)
            # The same driver goes on, with the new version.
            wait_until(lambda: len(onlooker.seen) > at_swap and onlooker.seen[-1] > rebuilt.rows)
        assert old.error is None
        wait_until(lambda: rows(mp, CUSTOMERS) == expected_per_customer(writer.count))
    assert (rebuilt.version, active_version(mp)) == (2, 2)
    assert onlooker.wrong == []
    kept = rows(mp, "select sum(orders) from customers__v1")
    assert int(str(kept[0][0])) <= rebuilt.rows


@pytest.mark.parametrize("is_compared", [True, False])
def test_what_the_driver_writes_before_the_swap_is_not_hidden_because_it_compares(
    mp: Milepost, spark: SparkSession, conn: Connection, is_compared: bool
) -> None:
    if not is_compared:
        replace_in(conn, *COMPARED_CHECKPOINTS)
    pipeline, onlooker = customers(mp), Onlooker(mp)
    place(mp, 0, 30)
    catch_up(pipeline, spark)

    def watch(progress: Progress) -> None:
        if progress.phase == "swapping" and not onlooker.seen:
            place(mp, 30, 10)
            catch_up(pipeline, spark)
            onlooker.look(conn)

    work = rebuild_of(pipeline, spark)
    work.watch = watch
    work.run()
    onlooker.look(conn)
    assert active_version(mp) == 2
    assert onlooker.seen == [40, 40 if is_compared else 30]
    assert (onlooker.wrong == []) is is_compared


@pytest.mark.parametrize("is_compared", [True, False])
def test_a_rebuild_that_was_taken_for_dead_writes_nothing_because_its_checkpoint_is_compared(
    mp: Milepost, spark: SparkSession, conn: Connection, monkeypatch: pytest.MonkeyPatch,
    is_compared: bool,
) -> None:  # fmt: skip
    """It hangs before it stages its first range, until another one has swapped the version in."""
    if not is_compared:
        conn.execute(STORE_WITHOUT_COMPARING)
    pipeline = customers(mp, batch=100)
    place(mp, 0, 100)
    catch_up(pipeline, spark)
    hung, other = rebuild_of(pipeline, spark), rebuild_of(pipeline, spark)
    is_hung, go_on, staging_of = threading.Event(), threading.Event(), RangeWriter.staging_of
    errors: list[Exception] = []

    def staging_when_told(writer: RangeWriter, *given: Any, **named: Any) -> Any:
        if writer.owner == hung.owner:
            is_hung.set()
            assert go_on.wait(100)
        return staging_of(writer, *given, **named)

    def run() -> None:
        try:
            hung.run()
        except (CompetingPipeline, RebuildFailed) as error:
            errors.append(error)

    monkeypatch.setattr(RangeWriter, "staging_of", staging_when_told)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert is_hung.wait(100)
        assert other.run().version == 2
    finally:
        go_on.set()
        thread.join(100)
    assert [type(each) for each in errors] == [CompetingPipeline if is_compared else RebuildFailed]
    onlooker = Onlooker(mp)
    onlooker.look(conn)
    assert (onlooker.wrong == []) is is_compared
    assert onlooker.seen == [100 if is_compared else 200]


def test_a_driver_that_moves_too_fast_is_held_for_a_moment(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "PATIENT_TRIES", 0)
    monkeypatch.setattr(swap, "HOLD_SECONDS", 100.0)  # so that it is still held as one looks
    pipeline = customers(mp)
    place(mp, 0, 50)
    held: list[object] = []

    def watch(progress: Progress) -> None:
        if progress.phase == "swapping":
            held.extend(
                rows(mp, "select hold_until > now() from milepost.pipelines where version = 1")
            )

    with running(pipeline, spark):
        wait_until(lambda: has_target(mp))
        work = rebuild_of(pipeline, spark)
        work.watch = watch
        work.run()
        place(mp, 50, 10)
        wait_until(lambda: rows(mp, CUSTOMERS) == expected_per_customer(60))
    assert held[0] == (True,)
    assert rows(mp, "select count(*) from milepost.pipelines where hold_until is not null") == [
        (0,)
    ]


def test_no_batch_begins_while_a_driver_is_held(mp: Milepost, spark: SparkSession) -> None:
    pipeline = customers(mp)
    with running(pipeline, spark):
        wait_until(lambda: rows(mp, "select 1 from milepost.pipelines where state = 'running'"))
        with mp.connect() as conn:
            versions.hold(conn, CheckpointKey("customers", 1), "milepost", 3)
        place(mp, 0, 10)
        wait_until(lambda: pipeline.position() == mp.horizon())
    waited = rows(
        mp,
        "select c.updated_at >= p.hold_until from milepost.checkpoints as c "
        "join milepost.pipelines as p on p.name = c.processor and p.version = c.version",
    )
    assert waited == [(True,)]


def test_a_driver_of_other_code_stops_when_the_new_version_is_swapped_in(
    mp: Milepost, spark: SparkSession
) -> None:
    place(mp, 0, 50)
    old = Running(runner_of(customers(mp), spark))
    wait_until(lambda: has_target(mp))
    rebuild_of(customers_with_twice(mp), spark).run()
    old.join()  # although there is nothing new for it in the log
    assert isinstance(old.error, OtherVersionActive)
    assert "its target shows version 2" in str(old.error)


def test_of_two_rebuilds_at_once_one_stops_and_names_the_other(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 200)
    both_have_begun = threading.Barrier(2)
    works = [rebuild_of(pipeline, spark, max_messages=60) for _ in range(2)]
    outcomes: dict[str, Rebuilt | Exception] = {}

    def run(work: Rebuild) -> None:
        waited = threading.Event()

        def watch(_: Progress) -> None:
            if not waited.is_set():
                waited.set()
                both_have_begun.wait(60)

        work.watch = watch
        try:
            outcomes[work.owner] = work.run()
        except CompetingPipeline as error:
            outcomes[work.owner] = error

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    (loser,) = [error for error in outcomes.values() if isinstance(error, CompetingPipeline)]
    (winner,) = [owner for owner, found in outcomes.items() if isinstance(found, Rebuilt)]
    assert loser.other == winner
    assert rows(mp, CUSTOMERS) == expected_per_customer(200)
    assert tables(mp) == ["customers__v1"]


def test_a_rebuild_is_not_refused_for_the_table_of_one_that_begins_at_the_same_moment(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 50)
    load = versions.load_versions
    waits = "select 1 from pg_stat_activity where wait_event = 'advisory' and query ~ 'pipeline'"

    def load_and_be_followed(*arguments: Any) -> list[versions.Version]:
        """The other one comes as far as it can before anything is done with what was found."""
        known = load(*arguments)
        monkeypatch.setattr(versions, "load_versions", load)
        other.start()
        wait_until(lambda: rows(mp, waits) or tables(mp))
        return known

    def press_control_c(_: Progress) -> None:
        raise KeyboardInterrupt

    def begin() -> None:
        work = rebuild_of(pipeline, spark)
        work.watch = press_control_c
        with pytest.raises(KeyboardInterrupt):
            work.run()

    other = threading.Thread(target=begin)
    monkeypatch.setattr(versions, "load_versions", load_and_be_followed)
    try:
        assert rebuild_of(pipeline, spark)._register() == 1
    finally:
        other.join(100)
    assert rebuild_of(pipeline, spark).run().version == 1
    assert rows(mp, CUSTOMERS) == expected_per_customer(50)


def test_a_version_that_is_dropped_while_it_is_filled_ends_its_rebuild(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 200)
    work = rebuild_of(pipeline, spark)

    def watch(progress: Progress) -> None:
        if 0 < progress.done < progress.total:
            with mp.connect() as conn:
                admin.drop(conn, "milepost", "customers", 1)

    work.watch = watch
    with pytest.raises(RebuildFailed, match="version 1 was dropped"):
        work.run()
    assert tables(mp) == []


def test_a_swap_whose_answer_was_lost_is_recognised(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 50)
    swap = versions.swap

    def swap_and_lose_the_answer(*arguments: Any, **keywords: Any) -> None:
        monkeypatch.setattr(versions, "swap", swap)
        assert swap(*arguments, **keywords) == "swapped"
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(versions, "swap", swap_and_lose_the_answer)
    assert rebuild_of(pipeline, spark).run().version == 1
    assert rows(mp, CUSTOMERS) == expected_per_customer(50)
    assert rows(mp, "select state, last_error from milepost.pipelines") == [("stopped", None)]
