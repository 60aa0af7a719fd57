"""Many processes, one server: racing starts, and a server that outlives its starter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from milepost.embedded import EmbeddedServer

if TYPE_CHECKING:
    from tests.integration.embedded.conftest import RunPython

START = """
import sys
from pathlib import Path
from milepost.embedded import EmbeddedServer
sys.stdin.readline()
server = EmbeddedServer(Path(sys.argv[1]))
url = server.start()
pid = (server.directory / "postgres" / "postmaster.pid").read_text().split()[0]
print(url, pid)
"""


def test_ten_processes_that_start_at_once_share_one_server(
    server: EmbeddedServer, run_python: RunPython
) -> None:
    starters = [run_python(START, server.directory) for _ in range(10)]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    # Reading to the end of each pipe also shows that the server does not hold them open.
    answers = {starter.communicate()[0] for starter in starters}
    assert [starter.returncode for starter in starters] == [0] * 10
    assert len(answers) == 1
    assert answers.pop().split()[0] == server.url()


def test_the_server_outlives_the_process_that_started_it(
    server: EmbeddedServer, run_python: RunPython
) -> None:
    output, _ = run_python(START, server.directory).communicate("go\n")
    assert server.url() == output.split()[0]
    with psycopg.connect(output.split()[0]) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def test_starts_and_stops_at_once_never_collide(
    server: EmbeddedServer, run_python: RunPython
) -> None:
    script = """
import sys
from pathlib import Path
from milepost.embedded import EmbeddedServer
from milepost.errors import EmbeddedError
server = EmbeddedServer(Path(sys.argv[1]))
for _ in range(10):
    try:
        getattr(server, sys.argv[2])()
    except EmbeddedError as exc:
        if "was stopped as it had started" not in str(exc):
            raise
"""
    server.start()
    processes = [run_python(script, server.directory, verb) for verb in ("start", "stop") * 2]
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0, output
    assert server.start() == server.url()
