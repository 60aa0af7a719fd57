"""A commit whose answer was lost: the checkpoint tells whether it happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from milepost import Milepost, RecordedMessage
from milepost.db import AsyncConnection, Connection
from milepost.processors import Processor
from tests.integration.processors import sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.proxy import Mischief, Proxy, proxied
from tests.integration.processors.running import Effects, leave_all, running
from tests.waiting import wait_until


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with proxied(url) as proxy:
        yield proxy


class Spoiled:
    """A processor whose second batch meets with a mischief at its commit."""

    def __init__(self, proxy: Proxy, mischief: Mischief) -> None:
        self.proxy, self.mischief = proxy, mischief
        self.handled: list[int] = []

    def processor(self) -> Processor:
        mp = Milepost(self.proxy.url)
        return mp.processor("spoiled", batch_size=2)(self.handle)

    def handle(self, messages: list[RecordedMessage], tx: Connection) -> None:
        self.note(messages)
        leave_all(messages, tx)

    def processor_async(self) -> Processor:
        mp = Milepost(self.proxy.url)
        return mp.processor("spoiled", batch_size=2)(self.handle_async)

    async def handle_async(self, messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        self.note(messages)
        for message in messages:
            await tx.execute(
                "insert into effects (transaction_id, position) values (%s, %s)",
                [message.position.transaction_id, message.position.position],
            )

    def note(self, messages: list[RecordedMessage]) -> None:
        numbers = [message.data["number"] for message in messages]
        if numbers == [3, 4] and not self.proxy.cut:
            self.proxy.arm(self.mischief)
        self.handled += numbers


MakeProcessor = Callable[[Spoiled], Processor]
both_colours = pytest.mark.parametrize("make", [Spoiled.processor, Spoiled.processor_async])


@both_colours
def test_a_batch_whose_commit_was_not_answered_is_not_handled_twice(
    proxy: Proxy, effects: Effects, put: Put, make: MakeProcessor
) -> None:
    spoiled = Spoiled(proxy, Mischief.LOSE_ANSWER)
    positions = put(6)
    with running(make(spoiled)):
        effects.wait_for(6)
    assert proxy.cut == 1
    assert spoiled.handled == [1, 2, 3, 4, 5, 6]
    assert effects.positions() == positions


@both_colours
def test_a_batch_whose_commit_was_lost_is_handled_again(
    proxy: Proxy, effects: Effects, put: Put, make: MakeProcessor
) -> None:
    spoiled = Spoiled(proxy, Mischief.LOSE_COMMIT)
    positions = put(6)
    with running(make(spoiled)):
        effects.wait_for(6)
    assert proxy.cut == 1
    assert spoiled.handled == [1, 2, 3, 4, 3, 4, 5, 6]
    assert effects.positions() == positions


def test_a_commit_that_outlives_its_connection_is_no_competing_instance(
    proxy: Proxy, conn: Connection, effects: Effects, put: Put
) -> None:
    """The next session waits for the checkpoint that the old one has yet to commit."""
    spoiled = Spoiled(proxy, Mischief.DELAY_COMMIT)
    positions = put(6)
    with running(spoiled.processor()):
        wait_until(lambda: proxy.cut)
        sessions.wait_until_one_waits_for_a_lock(conn, "spoiled")
        proxy.is_released.set()
        effects.wait_for(6)
    assert spoiled.handled == [1, 2, 3, 4, 5, 6]
    assert effects.positions() == positions
