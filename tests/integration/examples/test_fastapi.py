"""The shop behind HTTP: an order, its message and its job together, and what follows from them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from milepost import Milepost
from milepost.testing.databases import as_url
from tests.integration.examples.running import Place
from tests.server import TestServer
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def place(place: Place) -> Place:
    """SQLAlchemy reads no pairs."""
    return replace(place, url=as_url(place.url))


def test_orders_are_placed_confirmed_and_added_up(place: Place) -> None:
    place.said("milepost migrate")
    with (
        place.running("python -m examples.fastapi --port 0") as printed,
        httpx.Client(timeout=30) as client,
    ):
        wait_until(lambda: "serving" in printed())
        client.base_url = re.findall(r"serving (http\S+)", printed())[0]
        assert client.get("/orders/1").status_code == 404
        for number, customer in enumerate(["ann", "bob", "ann"], start=1):
            order = {"number": number, "customer": customer, "total": 10 * number}
            created = client.post("/orders", json=order)
            assert (created.status_code, created.json()) == (201, order | {"is_confirmed": False})
        again = client.post("/orders", json={"number": 1, "customer": "ann", "total": 5})
        assert (again.status_code, again.json()["detail"]) == (409, "There is an order 1 already.")
        assert (types(place), jobs(place)) == (["OrderPlaced"] * 3, 3), "nothing of the refused one"

        with place.running("milepost run examples.fastapi.app:mp"):
            wait_until(lambda: all(is_confirmed(client, number) for number in (1, 2, 3)))
            wait_until(lambda: spent(client, "ann") == 40 and spent(client, "bob") == 20)
    assert sorted(types(place)) == ["OrderConfirmed"] * 3 + ["OrderPlaced"] * 3
    assert jobs(place) == 0


def is_confirmed(client: httpx.Client, number: int) -> bool:
    return bool(client.get(f"/orders/{number}").json()["is_confirmed"])


def spent(client: httpx.Client, customer: str) -> int:
    return int(client.get(f"/customers/{customer}").json()["total"])


def types(place: Place) -> list[str]:
    return [message.type for message in Milepost(place.url).read()]


def jobs(place: Place) -> int:
    with Milepost(place.url).connect() as conn:
        return len(conn.execute("select from milepost.jobs").fetchall())


def test_its_own_tests_pass(server: TestServer) -> None:
    """As the README says, on this run's server, each on a database of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-W", "default",
         "-o", "milepost_app=examples.fastapi.app:mp", "examples/fastapi"],
        env=os.environ | {"MILEPOST_TEST_URL": server.base_url, "MILEPOST_URL": "unused"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr
