"""The dashboard, served by uvicorn in a thread, on a port that the system chooses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

from milepost.ui import Dashboard
from tests.waiting import wait_until


class Server(uvicorn.Server):
    """Its process goes on, unlike that of `milepost ui`, and what is left open would fail a later
    test."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """A browser connects again and again: a connection that is made while this ends is neither
        refused nor closed."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # in which they are closed


@contextmanager
def served(dashboard: Dashboard, app: ASGIApp | None = None) -> Iterator[str]:
    """The URL. `app`: another application, in which the dashboard is mounted."""
    # As `milepost ui` does: a browser may keep a connection on which it asks for nothing.
    config = uvicorn.Config(
        app or dashboard, log_level="warning", lifespan="off", timeout_graceful_shutdown=5
    )
    server = Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="uvicorn")
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive())
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            dashboard.close()
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
