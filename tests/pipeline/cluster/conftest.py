"""One cluster for all tests of this folder; the driver of each is a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from milepost import Milepost
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.pipeline.cluster.gate import Gate
from tests.pipeline.cluster.orders import BATCH, append_orders, position_of
from tests.pipeline.cluster.standalone import Cluster, running_cluster


@pytest.fixture(scope="session")
def standing_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place: Path = tmp_path_factory.mktemp("cluster")
    with running_cluster(place) as cluster:
        yield cluster


@pytest.fixture
def cluster(standing_cluster: Cluster) -> Cluster:
    """With all its workers, whatever the test before has killed."""
    standing_cluster.replace_lost_workers()
    return standing_cluster


@pytest.fixture
def order() -> LogOrder:
    """Both orders are tested on one machine; what is lost here is the same for both."""
    return "append"


@pytest.fixture
def orders(mp: Milepost, conn: Connection) -> None:
    append_orders(mp, conn)


@pytest.fixture
def gate(orders: None, conn: Connection, tmp_path: Path) -> Gate:
    """In the last partition of the second batch: the others of it have been done when the task
    waits there."""
    place = tmp_path / "gate"
    place.mkdir()
    return Gate(place, position_of(conn, 2 * BATCH - 1))


@pytest.fixture
def slow_gate(gate: Gate) -> Gate:
    """Holds the first attempt of the task for ever, no other."""
    return replace(gate, holds=1)
