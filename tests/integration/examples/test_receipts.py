"""Tasks: each order has its receipt, the caller has the result of the last one."""

from __future__ import annotations

import re

from milepost import Milepost
from tests.integration.examples.running import Place
from tests.waiting import wait_until

ORDERS = 3


def test_every_order_has_its_receipt(place: Place) -> None:
    place.said("milepost migrate")
    with place.running("milepost run examples.receipts:mp") as printed:
        wait_until(lambda: "the printer is on" in printed())
        said = place.said(f"python examples/receipts.py {ORDERS}")
        assert said == f"the last receipt is receipt-{ORDERS}\n"
        wait_until(lambda: len(receipts(place)) == ORDERS)
    assert sorted(re.findall(r"receipt of order (\d)", printed())) == ["1", "2", "3"]
    assert printed().count("the printer is on") == 1
    assert printed().endswith("the printer is off\n")


def receipts(place: Place) -> list[str]:
    with Milepost(place.url).connect() as conn:
        rows = conn.execute("select receipt from example_orders where receipt is not null")
        return [receipt for (receipt,) in rows.fetchall()]
