"""One rendering of each open view, twice a second, for all browsers that show it.

All views are rendered at the same moments: shortly after the sampler has looked, at the beginning
of each second, so that what it has read is shown while it is new.

A browser that is slow misses versions in between, never the last one: what waits for it is the
newest version of each part.

The views are rendered by a few threads of their own, so that pages do not wait for a thread.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import psycopg
from anyio import CapacityLimiter, to_thread

from milepost.errors import MilepostError
from milepost.ui.drawn.page import NotFound

if TYPE_CHECKING:
    from milepost.ui.drawn.render import RenderedPart

TICK_SECONDS = 0.5
TICK_AFTER_SECONDS = 0.1  # a second has begun
THREADS = 2  # more would only take turns with the threads of pages
# A stream ends after this time, and the browser opens the next: a session that has expired is
# noticed, and a server that stops waits no longer than that.
STREAM_SECONDS = 300.0
PING_SECONDS = 15.0  # proxies cut connections on which nothing is sent
RENDER_ERRORS = (psycopg.Error, MilepostError, NotFound)
Render: TypeAlias = Callable[[], "list[RenderedPart]"]


@dataclass(slots=True, eq=False)
class Listener:
    """One browser: the parts that it was not sent yet."""

    waiting: dict[str, RenderedPart] = field(default_factory=dict)
    trouble: str | None = None
    is_told: bool = False  # of a trouble
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def events(self) -> list[str]:
        """What to send now."""
        parts = list(self.waiting.values())
        self.waiting.clear()
        self.wake.clear()
        events = [_event("part", _document(part)) for part in parts]
        if self.trouble is not None or self.is_told:
            self.is_told = self.trouble is not None
            events.append(_event("trouble", {"text": self.trouble or ""}))
        return events


@dataclass(slots=True, eq=False)
class Channel:
    """One view and the browsers that show it. Its task renders while there are any."""

    render: Render
    threads: CapacityLimiter
    listeners: set[Listener] = field(default_factory=set)
    task: asyncio.Task[None] | None = None
    parts: dict[str, RenderedPart] = field(default_factory=dict)
    trouble: str | None = None

    def join(self) -> Listener:
        """It is first given all parts: the browser leaves those that it shows already."""
        listener = Listener(dict(self.parts), self.trouble)
        listener.wake.set()
        self.listeners.add(listener)
        return listener

    async def run(self) -> None:
        while True:
            await self._tick()
            await asyncio.sleep(TICK_SECONDS - (time.time() - TICK_AFTER_SECONDS) % TICK_SECONDS)

    async def _tick(self) -> None:
        try:
            parts = await to_thread.run_sync(self.render, limiter=self.threads)
        except RENDER_ERRORS as error:
            self._tell({}, " ".join(str(error).split()))
            return
        changed = {p.id: p for p in parts if self.parts.get(p.id) != p}
        self.parts = {p.id: p for p in parts}
        self._tell(changed, None)

    def _tell(self, changed: dict[str, RenderedPart], trouble: str | None) -> None:
        is_news = bool(changed) or trouble != self.trouble
        self.trouble = trouble
        for listener in self.listeners if is_news else ():
            listener.waiting |= changed
            listener.trouble = trouble
            listener.wake.set()


@dataclass(slots=True)
class Broadcast:
    """The channels, by view. Used on one event loop."""

    stream_seconds: float = STREAM_SECONDS
    _channels: dict[object, Channel] = field(default_factory=dict, init=False)
    _threads: CapacityLimiter | None = field(default=None, init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)

    @property
    def is_watched(self) -> bool:
        return bool(self._channels)

    async def stream(self, key: object, render: Render) -> AsyncIterator[str]:
        """The events for one browser, until it goes away, the time is over, or we close."""
        self._loop = asyncio.get_running_loop()
        self._threads = self._threads or CapacityLimiter(THREADS)
        channel = self._channels.setdefault(key, Channel(render, self._threads))
        listener = channel.join()
        if channel.task is None:
            channel.task = self._loop.create_task(channel.run())
        try:
            yield "retry: 1000\n\n"
            until = time.monotonic() + self.stream_seconds
            while not self._is_closed and (left := until - time.monotonic()) > 0:
                for event in await _next_events(listener, min(left, PING_SECONDS)):
                    yield event
        finally:
            self._leave(key, channel, listener)

    def close(self) -> None:
        """End all streams. From any thread."""
        self._is_closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for channel in self._channels.values():
            for listener in channel.listeners:
                listener.wake.set()

    def _leave(self, key: object, channel: Channel, listener: Listener) -> None:
        channel.listeners.discard(listener)
        if not channel.listeners and channel.task is not None:
            channel.task.cancel()
            channel.task = None
            self._channels.pop(key, None)


async def _next_events(listener: Listener, seconds: float) -> list[str]:
    try:
        await asyncio.wait_for(listener.wake.wait(), seconds)
    except TimeoutError:
        return [": still here\n\n"]
    return listener.events()


def _document(part: RenderedPart) -> dict[str, str]:
    return {"id": part.id, "html": part.html, "version": part.version}


def _event(name: str, document: dict[str, str]) -> str:
    """JSON has no line breaks, which would end the event's data."""
    return f"event: {name}\ndata: {json.dumps(document)}\n\n"
