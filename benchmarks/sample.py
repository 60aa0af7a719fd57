"""Messages as a shop would write them: some 350 bytes of JSON, mostly short texts."""

from __future__ import annotations

import random
from typing import Any

from milepost import Message


def orders(count: int) -> list[Message]:
    """The same messages whenever it is asked, but for their ids."""
    dice = random.Random(count)
    return [
        Message(
            "OrderPlaced",
            _order(number, dice),
            key=f"order-{number}",
            topic="orders",
            metadata={"correlation": f"request-{number}", "user": f"user-{dice.randrange(1000)}"},
        )
        for number in range(count)
    ]


def _order(number: int, dice: random.Random) -> dict[str, Any]:
    lines: list[dict[str, Any]] = [
        {
            "sku": f"SKU-{dice.randrange(10_000):05}",
            "name": dice.choice(["lamp, small", "writing desk", "chair", "bookshelf, oak"]),
            "quantity": dice.randrange(1, 5),
            "price": dice.randrange(100, 50_000) / 100,
        }
        for _ in range(dice.randrange(1, 5))
    ]
    return {
        "order": number,
        "customer": f"customer-{dice.randrange(1000)}",
        "placed_on": "2026-11-15",
        "currency": "EUR",
        "total": sum(line["quantity"] * line["price"] for line in lines),
        "lines": lines,
    }
