"""Streams have threads of their own."""

from __future__ import annotations

import asyncio
from threading import Event

from starlette.concurrency import run_in_threadpool

from milepost.ui.broadcast import Broadcast

STREAMS = 60  # more than the threads that pages have


def test_a_page_waits_for_no_thread_of_a_stream() -> None:
    released, began = Event(), Event()

    def render() -> list[object]:
        began.set()
        released.wait(60)
        return []

    async def follow(broadcast: Broadcast, number: int) -> None:
        async for _ in broadcast.stream(number, render):  # type: ignore[arg-type]  # no parts
            pass

    async def main() -> str:
        broadcast = Broadcast()
        async with asyncio.TaskGroup() as group:
            for number in range(STREAMS):
                group.create_task(follow(broadcast, number))
            await asyncio.to_thread(began.wait, 60)
            page = asyncio.create_task(run_in_threadpool(lambda: "a page"))
            done, _ = await asyncio.wait([page], timeout=30)
            released.set()
            broadcast.close()
        return page.result() if done else "waited"

    assert asyncio.run(main()) == "a page"
