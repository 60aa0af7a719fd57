"""Serves the probes over HTTP: `/livez` and `/readyz`, in a thread, with the standard library."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.errors import CannotListen
from milepost.observe.probes import Failing, ProbeLimits, Probes

if TYPE_CHECKING:
    from milepost.runtime import Group, Member, Runtime

log = logging.getLogger("milepost.health")
REQUEST_SECONDS = 5.0  # a client that sends nothing does not keep its thread for longer
LOOK_SECONDS = 0.1  # how soon the end is noticed
Probe: TypeAlias = "Callable[[], Sequence[Failing]]"


class Handler(BaseHTTPRequestHandler):
    """Knows no more of its server than what it answers."""

    server: ProbeServer
    timeout = REQUEST_SECONDS
    server_version, sys_version = "milepost", ""

    def do_GET(self) -> None:
        probe = self.server.probes.get(self.path.partition("?")[0])
        if probe is None:
            known = sorted(self.server.probes)
            self._answer(HTTPStatus.NOT_FOUND, {"ok": False, "paths": known})
            return
        failing = probe()
        status = HTTPStatus.SERVICE_UNAVAILABLE if failing else HTTPStatus.OK
        self._answer(status, {"ok": not failing, "failing": [asdict(each) for each in failing]})

    do_HEAD = do_GET  # noqa: N815 - as the base class names it

    def _answer(self, status: HTTPStatus, answer: Mapping[str, Any]) -> None:
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - the base class's
        log.debug(format, *values)


class ProbeServer(ThreadingTCPServer):
    """Not HTTPServer, which asks the name server for the name of its address."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], probes: Mapping[str, Probe]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.probes = probes
        super().__init__(address, Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """A client that is gone; the base class prints its stack."""
        log.debug("client=%s", client_address, exc_info=True)


@contextmanager
def probed(
    runtime: Runtime,
    group: Group,
    members: Sequence[Member],
    address: tuple[str, int],
    limits: ProbeLimits,
) -> Iterator[str]:
    """Around a run. An address that is taken is refused before anything is started."""
    probes = Probes(runtime, group, members, limits)
    answers = {"/livez": probes.not_live, "/readyz": probes.not_ready}
    with serving(address, answers) as url, probes.watched():
        yield url


@contextmanager
def serving(address: tuple[str, int], probes: Mapping[str, Probe]) -> Iterator[str]:
    """The URL at which the probes answer meanwhile."""
    with _listening(address, probes) as server:
        thread = Thread(
            target=server.serve_forever, args=(LOOK_SECONDS,), name="milepost-probes", daemon=True
        )
        thread.start()
        log.info("health=%s", server.url)
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def _listening(address: tuple[str, int], probes: Mapping[str, Probe]) -> ProbeServer:
    try:
        return ProbeServer(address, probes)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotListen(*address, reason, "--health, or health=(host, port)") from error
