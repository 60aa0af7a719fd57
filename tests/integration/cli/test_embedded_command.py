from __future__ import annotations

from pathlib import Path

import psycopg

from milepost.embedded import EmbeddedServer
from tests.integration.cli.command import Cli

NO_URL = Cli("")


def test_the_embedded_server_is_started_found_and_stopped(directory: Path) -> None:
    option = ("--directory", str(directory))
    absent = NO_URL.run("embedded", "url", *option)
    assert (absent.code, absent.stdout) == (1, "")
    assert f"Run: milepost embedded start --directory {directory}" in absent.stderr

    started = NO_URL.run("embedded", "start", *option)
    assert started.code == 0, started.stderr
    assert NO_URL.run("embedded", "url", *option).stdout == started.stdout
    with psycopg.connect(started.stdout.strip()) as conn:
        assert conn.execute("select 1").fetchone() == (1,)

    stopped = NO_URL.run("embedded", "stop", *option)
    assert (stopped.code, stopped.stderr) == (0, "stopped\n")
    assert not EmbeddedServer(directory).is_running()
    assert NO_URL.run("embedded", "stop", *option).code == 0
