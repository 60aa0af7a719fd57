"""Message handlers on executors that are processes of their own."""

from __future__ import annotations

import pytest

from milepost.db import Connection
from tests.pipeline.cluster.daemon import kill
from tests.pipeline.cluster.driver import SPECULATION, ends_well, started
from tests.pipeline.cluster.gate import Gate
from tests.pipeline.cluster.orders import HANDLED, SEEN_QUERY, note_outcome, query
from tests.pipeline.cluster.standalone import Cluster
from tests.soak import Figures

# Processes that start Java, again and again.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
HANDLED_QUERY = "select position from handled order by position"
# A second attempt of a task, which wants to move the checkpoint that the first one has in hand.
WAITING = """
select 1 from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and query ~ 'store_checkpoint'
"""


@pytest.fixture(autouse=True)
def _table(conn: Connection) -> None:
    conn.execute("create table handled (position bigint)")


def test_a_task_that_runs_twice_at_once_changes_nothing_twice(
    cluster: Cluster, conn: Connection, url: str, gate: Gate
) -> None:
    with started(cluster, url, "handle", gate, SPECULATION) as driver:
        gate.wait_for_another(driver, HANDLED)
        driver.wait_until(lambda: query(conn, WAITING))
        gate.open()
        ends_well(driver)
    assert query(conn, HANDLED_QUERY) == query(conn, SEEN_QUERY)


def test_an_executor_that_dies_in_mid_batch_changes_nothing_twice(
    cluster: Cluster, conn: Connection, url: str, gate: Gate, figures: Figures
) -> None:
    with started(cluster, url, "handle", gate) as driver:
        first = gate.wait_for_another(driver, HANDLED)
        kill(cluster.executor_beside(first))
        gate.wait_for_another(driver, HANDLED, first)
        gate.open()
        ends_well(driver)
    note_outcome(figures, conn, HANDLED, kills=1)
    assert query(conn, HANDLED_QUERY) == query(conn, SEEN_QUERY)
