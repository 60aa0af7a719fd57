from __future__ import annotations

import pytest
import typer

from milepost.cli.listen_address import listen_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9187", "127.0.0.1", 9187),
        ("localhost:0", "localhost", 0),
        ("0.0.0.0:65535", "0.0.0.0", 65535),  # noqa: S104 - parsed, not bound
        ("[::1]:8080", "::1", 8080),
        (" metrics.example:80 ", "metrics.example", 80),
    ],
)
def test_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert listen_address(text) == (host, port)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("9187", "has no port"),
        ("", "has no port"),
        (":9187", "has no host"),
        ("localhost:", "'' in 'localhost:' is not a port"),
        ("localhost:http", "'http' in 'localhost:http' is not a port"),
        ("localhost:-1", "is not a port"),
        ("localhost:65536", "is not a port from 0 to 65535"),
        ("localhost:٣", "is not a port"),
        ("::1:8080", "is not a host"),
        ("[]:8080", "is not a host"),
        ("http://localhost:8080", "is not a host"),
        ("local host:8080", "is not a host"),
    ],
)
def test_what_is_not_one_is_refused_with_the_form(text: str, reason: str) -> None:
    with pytest.raises(typer.BadParameter, match="Pass HOST:PORT") as refused:
        listen_address(text)
    assert reason in str(refused.value)
