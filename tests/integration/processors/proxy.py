"""A proxy between a program and its server that can lose the answer to a COMMIT, or the COMMIT.

It listens on a unix socket in a directory of its own and forwards bytes both ways. Once armed, it
does its mischief to the next COMMIT that passes, and only to that.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

COMMIT = b"COMMIT\0"
SOCKET = ".s.PGSQL.5432"
CHUNK = 65536


class Mischief(Enum):
    LOSE_COMMIT = auto()  # cut before it reaches the server
    LOSE_ANSWER = auto()  # cut after the server has committed
    DELAY_COMMIT = auto()  # cut the client off, and let the server have it when it is released


@dataclass(slots=True)
class Proxy:
    directory: Path
    server_socket: str
    url: str
    is_released: threading.Event = field(default_factory=threading.Event)
    cut: int = 0
    _armed: Mischief | None = None
    _listener: socket.socket = field(init=False)
    _sockets: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.directory / SOCKET))
        self._listener.listen()
        self._start(self._accept)

    def arm(self, mischief: Mischief) -> None:
        self._armed = mischief

    def close(self) -> None:
        """Shutting wakes whoever waits for a socket; then none is used any more."""
        self.is_released.set()
        shut(self._listener)
        self._threads[0].join()
        for connection in self._sockets:
            shut(connection)
        for thread in self._threads:
            thread.join()
        for connection in (self._listener, *self._sockets):
            connection.close()

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments, name="proxy"))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._sockets += [client, server]
                server.connect(self.server_socket)
                self._start(self._to_server, client, server)
                self._start(self._to_client, client, server)

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(CHUNK):
                if COMMIT in data and (mischief := self._armed) is not None:
                    self._armed = None
                    self._spoil(mischief, client, server, data)
                    return
                server.sendall(data)
        shut(server)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(CHUNK):
                client.sendall(data)
        shut(client)

    def _spoil(
        self, mischief: Mischief, client: socket.socket, server: socket.socket, data: bytes
    ) -> None:
        """Nothing more reaches the client: its side is shut before the server can answer."""
        self.cut += 1  # first: whoever finds himself cut off may look at it at once
        shut(client)
        if mischief is Mischief.DELAY_COMMIT:
            self.is_released.wait()
        if mischief is not Mischief.LOSE_COMMIT:
            server.sendall(data)
        # The server reads what was sent before it finds that there is no more.
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)


def shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(url: str, directory: Path) -> Iterator[Proxy]:
    host = conninfo_to_dict(url)["host"]
    proxy = Proxy(directory, f"{host}/{SOCKET}", make_conninfo(url, host=str(directory)))
    try:
        yield proxy
    finally:
        proxy.close()


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """In a directory of its own, not in pytest's: the path of a socket must be short."""
    if not str(conninfo_to_dict(url).get("host", "")).startswith("/"):
        pytest.skip("the proxy speaks to a server on a unix socket")
    with (
        tempfile.TemporaryDirectory(prefix="mp-proxy-") as directory,
        proxy_to(url, Path(directory)) as proxy,
    ):
        yield proxy
