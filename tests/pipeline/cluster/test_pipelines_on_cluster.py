"""Pipelines on a cluster that loses parts of itself in the middle of a batch: one query over the
log says what their targets must hold, nothing lost and nothing twice."""

from __future__ import annotations

import pytest

from milepost.db import Connection
from milepost.pipeline.names import TURNS, staging_name
from milepost.pipeline.write.column_types import ATTEMPT
from tests.pipeline.cluster.daemon import kill
from tests.pipeline.cluster.driver import SPECULATION, ends_well, started
from tests.pipeline.cluster.gate import Gate
from tests.pipeline.cluster.orders import SEEN, SEEN_QUERY, SPENDING_QUERY, note_outcome, query
from tests.pipeline.cluster.standalone import Cluster
from tests.soak import Figures

# Processes that start Java, again and again.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def test_an_executor_and_then_a_whole_worker_die_in_mid_batch(
    cluster: Cluster, conn: Connection, url: str, gate: Gate, figures: Figures
) -> None:
    with started(cluster, url, "run", gate) as driver:
        first = gate.wait_for_another(driver, SEEN)
        driver.wait_until(lambda: attempts_staged(conn) == 1)
        kill(cluster.executor_beside(first))
        second = gate.wait_for_another(driver, SEEN, first)
        driver.wait_until(lambda: attempts_staged(conn) == 2)
        cluster.worker_of(second).kill()
        gate.open()
        ends_well(driver)

    note_outcome(figures, conn, SEEN, kills=2)
    assert_seen_once(conn)
    assert_spent_once(conn)


def test_a_task_that_runs_twice_at_once_counts_once(
    cluster: Cluster, conn: Connection, url: str, slow_gate: Gate
) -> None:
    with started(cluster, url, "run_seen", slow_gate, SPECULATION) as driver:
        ends_well(driver)

    # The first attempt has staged most of its rows and waits; the second one ended the batch.
    assert len(slow_gate.visitors(SEEN)) == 2
    assert_seen_once(conn)


def test_the_driver_dies_in_mid_batch_and_the_next_one_goes_on(
    cluster: Cluster, conn: Connection, url: str, gate: Gate, figures: Figures
) -> None:
    with started(cluster, url, "run_seen", gate) as driver:
        gate.wait_for_another(driver, SEEN)
        driver.wait_until(lambda: attempts_staged(conn) == 1)
        driver.kill()
    gate.open()  # to whatever still runs of its batch as well
    with started(cluster, url, "run_seen", gate) as driver:
        ends_well(driver)

    note_outcome(figures, conn, SEEN, kills=1)
    assert_seen_once(conn)


def attempts_staged(conn: Connection) -> int:
    """How many attempts of the task that waits have left rows in staging, half of its own."""
    counted = f"select count(distinct {ATTEMPT}) from milepost.{{}} where padding is not null"  # noqa: S608
    names = [staging_name(SEEN, 1, turn) for turn in range(TURNS)]
    there = [n for n in names if query(conn, f"select to_regclass('milepost.{n}')") != [(None,)]]
    return sum(int(str(query(conn, counted.format(name))[0][0])) for name in there)


def assert_seen_once(conn: Connection) -> None:
    assert query(conn, "select position from seen order by position") == query(conn, SEEN_QUERY)


def assert_spent_once(conn: Connection) -> None:
    spent = query(conn, "select customer, orders, spent from spending order by customer")
    assert spent == query(conn, SPENDING_QUERY)
