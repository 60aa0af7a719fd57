"""The dashboard, served by uvicorn in a thread, on a port that the system chooses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

from milepost.ui import Dashboard
from tests.waiting import wait_until


@contextmanager
def served(dashboard: Dashboard, app: ASGIApp | None = None) -> Iterator[str]:
    """The URL. `app`: another application, in which the dashboard is mounted."""
    # As `milepost ui` does: a browser may keep a connection on which it asks for nothing.
    config = uvicorn.Config(
        app or dashboard, log_level="warning", lifespan="off", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
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
