"""The shop's own tests: `pytest -o milepost_app=examples.fastapi.app:mp examples/fastapi`.

The fixture `mp` binds the engine of `Milepost(engine=...)` to the test's database, so endpoints,
handlers and Milepost use the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from fastapi.testclient import TestClient

from examples.fastapi.app import app

if TYPE_CHECKING:
    from milepost.testing import MilepostUnderTest

ORDER = {"number": 1, "customer": "ann", "total": 42}


@pytest.fixture
def client(mp: MilepostUnderTest) -> Iterator[TestClient]:
    with TestClient(app) as client:  # creates the tables
        yield client


def test_an_order_is_confirmed_and_added_up(client: TestClient, mp: MilepostUnderTest) -> None:
    assert client.post("/orders", json=ORDER).status_code == 201
    mp.drain()
    assert client.get("/orders/1").json()["is_confirmed"]
    assert client.get("/customers/ann").json()["total"] == 42


def test_a_refused_order_leaves_nothing(client: TestClient, mp: MilepostUnderTest) -> None:
    client.post("/orders", json=ORDER)
    assert client.post("/orders", json=ORDER).status_code == 409
    assert len(mp.messages(type="OrderPlaced")) == len(mp.jobs(channel="confirmations")) == 1
