"""Orders and their messages; revenue exactly once, mails about each order."""

from __future__ import annotations

import re

from milepost import Milepost
from tests.integration.examples.running import Place

ORDERS = 20
REVENUE = "select customer, total from revenue order by customer"
PLACED = "select customer, sum(total) from orders group by customer order by customer"


def test_every_order_counts_once_and_has_its_mail(place: Place) -> None:
    place.said("milepost migrate")
    placed = place.said(f"python examples/shop.py {ORDERS}")
    assert placed == f"placed {ORDERS} orders; the log ends at 0:{ORDERS}\n"
    mails = place.said("milepost run examples.shop:mp --until caught_up")
    # Not by lines: handlers print at the same time.
    thanked = re.findall(r"mail to \w+: thank you for order (\d+)", mails)
    assert sorted(map(int, thanked)) == list(range(1, ORDERS + 1))
    with Milepost(place.url).connect() as conn:
        assert conn.execute(REVENUE).fetchall() == conn.execute(PLACED).fetchall()
    shown = place.said("milepost status")
    assert re.search(r"^revenue +stopped +0:20 +0 ", shown, re.MULTILINE), shown
    assert re.search(r"^mails +stopped +0:20 +0 ", shown, re.MULTILINE), shown
