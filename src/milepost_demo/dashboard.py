"""The dashboard of the demo's log, served while the demo runs."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from milepost.ui import dashboard

if TYPE_CHECKING:
    from milepost_demo.place import Place

HOST, PORT = "127.0.0.1", 8000
STOP_SECONDS = 10.0


@contextmanager
def served_dashboard(place: Place, tell: Callable[[str], None]) -> Iterator[None]:
    """In a thread. It says where it is, and opens a browser where there is a display."""
    import uvicorn

    made = dashboard(place.mp, listens_on=HOST)
    config = uvicorn.Config(made, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    with _listening() as listening:
        url = f"http://{HOST}:{listening.getsockname()[1]}"
        thread = Thread(target=server.run, args=([listening],), name="dashboard", daemon=True)
        thread.start()
        tell(f"the dashboard is at {url}")
        if has_display():
            webbrowser.open(url)
        try:
            yield
        finally:
            made.close()  # its streams would keep the server from ending
            server.should_exit = True
            thread.join(STOP_SECONDS)


def has_display() -> bool:
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _listening() -> socket.socket:
    """The usual port, or any that is free."""
    try:
        return socket.create_server((HOST, PORT))
    except OSError:
        return socket.create_server((HOST, 0))
