"""A processor that bills orders by the ORM, and what its tests ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction

from milepost import Message, Milepost
from milepost.contrib.django import append
from milepost.records import RecordedMessage
from tests.integration.contrib.django.shop.models import Order

Messages = list[RecordedMessage]


def place(*numbers: int) -> None:
    with transaction.atomic():
        append(*(Message("OrderPlaced", {"number": number}) for number in numbers))


def bill(messages: Messages, tx: Any = None) -> None:
    for message in messages:
        Order.objects.update_or_create(
            number=message.data["number"], defaults={"total": 10 * message.data["number"]}
        )


def process(mp: Milepost, handler: Callable[[Messages, Any], None], **options: Any) -> None:
    mp.processor("billing", **options)(handler)
    mp.run(until="caught_up", fail_fast=True)


def noting(seen: list[Any]) -> Callable[[Messages, Any], None]:
    def handle(messages: Messages, tx: Any) -> None:
        seen.append(tx)

    return handle


def totals() -> dict[int, int]:
    return dict(Order.objects.values_list("number", "total"))
