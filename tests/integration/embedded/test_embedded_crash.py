"""After a kill or a reboot: what the dead server left must not keep the next from starting."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import psycopg
import pytest

from milepost.embedded import EmbeddedServer
from milepost.embedded.account import account_owning
from milepost.embedded.postmaster import Postmaster, Status

LOCKS = ("postmaster.pid", ".s.PGSQL.5432.lock")


def data(server: EmbeddedServer) -> Path:
    return server.directory / "postgres"


def postmaster_pid(server: EmbeddedServer) -> int:
    return int((data(server) / "postmaster.pid").read_text().split("\n")[0])


@pytest.fixture
def stranger(server: EmbeddedServer) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the server's account that is no server."""
    server.start()
    owner = account_owning(data(server))
    user = None if owner.is_us else owner.uid
    process = subprocess.Popen(["/bin/sleep", "600"], user=user, cwd="/")
    yield process
    process.kill()
    process.wait()


def leave_locks_naming(server: EmbeddedServer, pid: int) -> None:
    """Stop the server, and put its lock files back as if `pid` had been the server's."""
    owner = account_owning(data(server))
    contents = {name: (data(server) / name).read_text() for name in LOCKS}
    old = str(postmaster_pid(server))
    server.stop()
    for name, content in contents.items():
        (data(server) / name).write_text(content.replace(old, str(pid), 1))
        (data(server) / name).chmod(0o600)
        os.chown(data(server) / name, owner.uid, owner.gid)


def test_a_killed_server_starts_again_with_what_was_committed(server: EmbeddedServer) -> None:
    url = server.start()
    with psycopg.connect(url) as conn, psycopg.connect(url):
        conn.execute("create table kept as select n from generate_series(1, 1000) as n")
        conn.commit()
        # At once, with the connections' processes still there: start itself waits for them.
        killed = postmaster_pid(server)
        os.kill(killed, signal.SIGKILL)
        assert server.start() == url
    assert postmaster_pid(server) != killed
    with psycopg.connect(url) as conn:
        assert conn.execute("select count(*) from kept").fetchone() == (1000,)


def test_start_waits_for_the_last_process_of_a_killed_server(server: EmbeddedServer) -> None:
    with psycopg.connect(server.start()) as conn, ThreadPoolExecutor() as pool:
        orphan = conn.info.backend_pid
        os.kill(orphan, signal.SIGSTOP)
        try:
            os.kill(postmaster_pid(server), signal.SIGKILL)
            started = pool.submit(server.start)
            refused = "pre-existing shared memory block"
            while not started.done() and refused not in (data(server) / "postgres.log").read_text():
                wait([started], timeout=0.05)
            assert not started.done(), "it gave up, or ran two servers on one cluster"
        finally:
            os.kill(orphan, signal.SIGCONT)
        assert started.result() == server.url()


def test_a_pid_recycled_by_a_stranger_is_not_taken_for_the_server(
    server: EmbeddedServer, stranger: subprocess.Popen[bytes]
) -> None:
    leave_locks_naming(server, stranger.pid)
    assert not server.is_running()
    assert server.stop() is False
    server.start()
    assert postmaster_pid(server) != stranger.pid
    assert stranger.poll() is None, "the stranger was signalled"


def test_a_server_that_is_a_zombie_does_not_block_the_next(
    server: EmbeddedServer, stranger: subprocess.Popen[bytes]
) -> None:
    leave_locks_naming(server, stranger.pid)
    os.kill(stranger.pid, signal.SIGKILL)
    os.waitid(os.P_PID, stranger.pid, os.WEXITED | os.WNOWAIT)
    assert not server.is_running()
    server.start()
    assert server.is_running()


def test_a_killed_initdb_does_not_leave_half_a_cluster(server: EmbeddedServer) -> None:
    half = server.directory / "postgres.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    server.start()
    assert server.is_running()
    assert not half.exists()


def test_a_server_still_recovering_is_waited_for(
    server: EmbeddedServer, open_directory: Path
) -> None:
    server.start()
    answers = open_directory / "answers"
    answers.write_text("1\n1\n0\n")
    pg_isready = open_directory / "pg_isready"
    pg_isready.write_text(
        f"#!/bin/sh\nread -r answer < {answers}; sed -i 1d {answers}; exit $answer\n"
    )
    pg_isready.chmod(0o755)
    postmaster = Postmaster(data(server), account_owning(data(server)))
    assert postmaster.settled(pg_isready) is Status.READY
    assert answers.read_text() == "", "it did not ask until the server was ready"


def test_a_server_whose_socket_was_swept_away_can_be_stopped(server: EmbeddedServer) -> None:
    server.start()
    (data(server) / ".s.PGSQL.5432").unlink()
    assert not server.is_running()
    assert server.stop() is True
    server.start()
    assert server.is_running()
