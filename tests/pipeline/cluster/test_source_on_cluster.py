"""The source, read by executors that are processes of their own."""

from __future__ import annotations

import pytest

from milepost.db import Connection
from tests.pipeline.cluster.daemon import kill
from tests.pipeline.cluster.driver import ends_well, started
from tests.pipeline.cluster.gate import Gate
from tests.pipeline.cluster.orders import SPENDING, SPENDING_QUERY, query
from tests.pipeline.cluster.standalone import Cluster

# Processes that start Java, again and again.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def test_a_read_survives_the_death_of_an_executor(
    cluster: Cluster, conn: Connection, url: str, gate: Gate
) -> None:
    with started(cluster, url, "read", gate) as driver:
        first = gate.wait_for_another(driver, SPENDING)
        kill(cluster.executor_beside(first))
        gate.wait_for_another(driver, SPENDING, first)
        gate.open()
        found = [tuple(row) for row in ends_well(driver)]

    assert found == [tuple(map(_plain, row)) for row in query(conn, SPENDING_QUERY)]


def _plain(value: object) -> object:
    """PostgreSQL sums to a numeric, Spark to a bigint."""
    return value if isinstance(value, str) else int(str(value))
