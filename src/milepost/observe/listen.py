"""Serve `/metrics` over HTTP, until the process is interrupted."""

from __future__ import annotations

import ipaddress
import logging
import socket
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from milepost.observe.prometheus import Connect, render

log = logging.getLogger("milepost.metrics")
_TEXT = "text/plain; charset=utf-8"
_REQUEST_SECONDS = 30.0


@dataclass(slots=True)
class Exporter:
    """Answers requests, one look at a time: many scrapers, or a server that hangs, take one
    connection and not more."""

    connect: Connect
    schema: str
    _lock: Lock = field(default_factory=Lock, init=False)

    def answer(self, path: str, accept: str) -> tuple[HTTPStatus, bytes, str]:
        if path.partition("?")[0] != "/metrics":
            return HTTPStatus.NOT_FOUND, b"Metrics are at /metrics.\n", _TEXT
        with self._lock:
            body, content_type = render(self.connect, self.schema, accept)
        return HTTPStatus.OK, body, content_type


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def http_server(host: str, port: int, exporter: Exporter) -> ThreadingHTTPServer:
    """It listens already; `serve_forever()` answers."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS  # a client that sends nothing keeps no thread

        def do_GET(self) -> None:
            status, body, content_type = exporter.answer(
                self.path, self.headers.get("Accept") or ""
            )
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            log.debug(format, *args)

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    return Server((host, port), Handler)
