"""Where a command listens: `HOST:PORT`, an IPv6 host in brackets."""

from __future__ import annotations

import typer

_FORM = "Pass HOST:PORT, such as 127.0.0.1:9187, or [::1]:9187 for IPv6."
_LAST_PORT = 65535


def listen_address(text: str) -> tuple[str, int]:
    """The host and the port. Port 0: the system chooses a free one. Raises typer.BadParameter."""
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        raise typer.BadParameter(f"{text!r} has no port. {_FORM}")
    return _host(host, text), _port(port, text)


def _host(host: str, text: str) -> str:
    """Without brackets, which host and which port `::1:80` means is not clear."""
    if host.startswith("[") and host.endswith("]") and len(host) > 2:
        return host[1:-1]
    if not host:
        raise typer.BadParameter(f"{text!r} has no host. {_FORM}")
    if any(c in ":[]/" or c.isspace() for c in host):
        raise typer.BadParameter(f"{host!r} in {text!r} is not a host. {_FORM}")
    return host


def _port(port: str, text: str) -> int:
    if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
        raise typer.BadParameter(
            f"{port!r} in {text!r} is not a port from 0 to {_LAST_PORT}. {_FORM}"
        )
    return int(port)
