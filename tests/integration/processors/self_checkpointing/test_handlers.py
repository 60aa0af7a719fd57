"""Several handlers that make up one ordinary processor."""

from __future__ import annotations

import pytest

from milepost import Milepost, RecordedMessage, Segment
from milepost.db import AsyncConnection, Connection
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all


def test_all_handlers_are_called_in_order_in_one_transaction(
    mp: Milepost, put: Put, effects: Effects
) -> None:
    calls: list[str] = []

    @mp.processor("p", batch_size=5)
    def first(messages: list[RecordedMessage], tx: Connection) -> None:
        calls.append("first")
        leave_all(messages, tx)

    @first.handler
    def second(messages: list[RecordedMessage], tx: Connection) -> None:
        calls.append("second")
        leave_all(messages, tx)

    positions = put(10)
    first.run(until="caught_up")
    assert calls == ["first", "second"] * 2
    assert effects.positions() == positions[:5] * 2 + positions[5:] * 2


def test_one_that_fails_rolls_back_the_others(mp: Milepost, put: Put, effects: Effects) -> None:
    failures = 1

    @mp.processor("p")
    def first(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)

    @first.handler
    def second(messages: list[RecordedMessage], tx: Connection) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise ValueError("once")

    positions = put(5)
    first.run(until="caught_up")
    assert effects.positions() == positions


def test_message_by_message_all_handlers_see_one_before_the_next(mp: Milepost, put: Put) -> None:
    seen: list[tuple[str, int]] = []

    @mp.processor("p", handle="message", delivery="at_least_once")
    def first(message: RecordedMessage) -> None:
        seen.append(("first", message.data["number"]))

    @first.handler
    async def second(message: RecordedMessage, segment: Segment) -> None:
        seen.append(("second", message.data["number"]))
        assert segment == Segment.WHOLE

    put(2)
    first.run(until="caught_up")
    assert seen == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]


def test_async_handlers_share_a_transaction_too(mp: Milepost, put: Put, effects: Effects) -> None:
    @mp.processor("p")
    async def first(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        await _leave(messages, tx)

    @first.handler
    async def second(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        await _leave(messages, tx)

    positions = put(3)
    first.run(until="caught_up")
    assert effects.positions() == positions * 2


async def _leave(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
    for message in messages:
        await tx.execute(
            "insert into effects (transaction_id, position) values (%s, %s)",
            [message.position.transaction_id, message.position.position],
        )


def test_several_at_once_call_all_handlers(mp: Milepost, put: Put) -> None:
    seen: list[int] = []

    @mp.processor("p", handle="message", delivery="at_least_once", concurrency=3)
    def first(message: RecordedMessage) -> None:
        seen.append(message.data["number"])

    @first.handler
    def second(message: RecordedMessage) -> None:
        seen.append(message.data["number"])

    put(20)
    first.run(until="caught_up")
    assert sorted(seen) == sorted([*range(1, 21)] * 2)


def test_the_processor_is_still_callable_as_its_first_handler(mp: Milepost) -> None:
    @mp.processor("p", delivery="at_least_once")
    def first(messages: list[RecordedMessage]) -> str:
        return "first"

    @first.handler
    def second(messages: list[RecordedMessage]) -> str:
        return "second"

    assert first([]) == "first"
    assert second([]) == "second"


def test_two_colours_in_one_transaction_are_refused_where_the_second_is_added(
    mp: Milepost,
) -> None:
    @mp.processor("p")
    def first(messages: list[RecordedMessage], tx: Connection) -> None: ...

    with pytest.raises(TypeError, match="all def or all async def"):

        @first.handler
        async def second(messages: list[RecordedMessage], tx: AsyncConnection) -> None: ...

    assert len(first.definition.handlers) == 1
