"""`milepost run --processes N`: a parent and its processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from milepost import Job, Milepost
from milepost.db import Connection
from tests.integration.cli.command import Cli
from tests.waiting import wait_until

APPLICATION = "tests.integration.cli.application:mp"
pytestmark = pytest.mark.parametrize("order", ["append"])
RUNNING = "select from milepost.jobs where status = 'running'"
STARTED = re.compile(r"process=(\d) started pid=(\d+)")


class Parent:
    """Its lines are read while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def pids(self) -> list[int]:
        """In the order in which they were started."""
        found = [STARTED.search(line) for line in list(self.lines)]
        return [int(match[2]) for match in found if match]

    def running(self, word: str) -> int:
        return sum(word in line for line in list(self.lines))

    def ends(self) -> int:
        code = self.process.wait(60)
        self._reader.join(60)
        return code


def is_alive(pid: int) -> bool:
    """A process that nobody has waited for is not alive."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextmanager
def parent(cli: Cli, *options: str) -> Iterator[Parent]:
    arguments = ("run", APPLICATION, "--processes", "2", "--only", "chores", *options)
    with cli.start(*arguments) as process:
        started = Parent(process)
        try:
            yield started
        finally:
            if process.poll() is None:
                process.kill()
            started.ends()
            wait_until(lambda: not any(map(is_alive, started.pids())))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_reaches_all_of_them_and_is_no_failure(cli: Cli, number: signal.Signals) -> None:
    with parent(cli) as started:
        wait_until(lambda: started.running("running chores") == 2)
        started.process.send_signal(number)
        assert started.ends() == 0
        assert len(started.pids()) == 2
        assert not any(map(is_alive, started.pids()))


def test_a_second_stop_ends_all_of_them_immediately(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    mp.put(conn, Job("chores", "endless"))
    with parent(cli) as started:
        wait_until(lambda: conn.execute(RUNNING).fetchall())

        def has_ended_by_a_further_signal() -> bool:
            started.process.send_signal(signal.SIGTERM)
            return started.process.poll() is not None

        wait_until(has_ended_by_a_further_signal, look_seconds=0.2)
        assert started.ends() == 128 + signal.SIGTERM
        wait_until(lambda: not any(map(is_alive, started.pids())))


def test_one_that_dies_is_started_again(cli: Cli, mp: Milepost, conn: Connection) -> None:
    with parent(cli) as started:
        wait_until(lambda: started.running("running chores") == 2)
        os.kill(started.pids()[0], signal.SIGKILL)
        wait_until(lambda: started.running("running chores") == 3)
        assert started.running("process=1 ended code=137, restarts in") == 1
        mp.put(conn, Job("chores", 1))
        wait_until(lambda: not conn.execute("select from milepost.jobs").fetchall())
        started.process.send_signal(signal.SIGTERM)
        assert started.ends() == 0


def test_with_fail_fast_the_first_failure_ends_all_with_its_code(cli: Cli) -> None:
    with parent(cli, "--fail-fast") as started:
        wait_until(lambda: started.running("running chores") == 2)
        os.kill(started.pids()[1], signal.SIGKILL)
        assert started.ends() == 137
        assert not any(map(is_alive, started.pids()))


def test_they_stop_if_their_parent_is_killed(cli: Cli) -> None:
    with parent(cli) as started:
        wait_until(lambda: started.running("running chores") == 2)
        started.process.kill()
        started.ends()
        wait_until(lambda: not any(map(is_alive, started.pids())))


def test_all_jobs_are_done_once_and_the_parent_ends_with_them(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    mp.put(conn, *(Job("chores", n) for n in range(50)), Job("chores", "bad"))
    with parent(cli, "--until", "drained") as started:
        assert started.ends() == 0
    rows = conn.execute("select status::text from milepost.jobs").fetchall()
    assert rows == [("dead",)]
    assert started.running("job=") == 1
    assert all(re.match(r"\S+ |running ", line) for line in started.lines)


def test_what_none_of_them_could_do_is_said_once(cli: Cli, empty_database: str) -> None:
    unknown = cli.run("run", "nowhere:mp", "--processes", "2")
    assert (unknown.code, "no module 'nowhere'" in unknown.stderr) == (1, True)
    missing = Cli(empty_database).run("run", APPLICATION, "--processes", "2")
    assert missing.code == 1
    assert missing.stderr.count("does not exist") == 1
    assert "started" not in missing.stderr
