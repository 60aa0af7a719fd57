"""`/livez` and `/readyz` of a real `milepost run`."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from milepost import Job, Message, Milepost, ProbeLimits, TakenJob, put
from milepost.db import Connection
from milepost.embedded import EmbeddedServer
from milepost.errors import BudgetTooSmall, CannotListen
from milepost.sql import LogOrder
from tests import waiting
from tests.crashing import migrated_database
from tests.integration.cli.command import Cli
from tests.integration.observe.gate import GATE, SECRET
from tests.integration.observe.probing import APPLICATION, ask, running, running_for_real
from tests.roles import roles_in
from tests.server import postgres

REQUESTS = 50
# Each look is work for both, and some of what is waited for takes seconds.
wait_until = partial(waiting.wait_until, look_seconds=0.05)


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture
def worker(mp: Milepost) -> Milepost:
    return with_worker(mp)


def with_worker(mp: Milepost) -> Milepost:
    @mp.worker("w")
    def work(job: TakenJob) -> None:
        pass

    return mp


def test_it_is_ready_when_it_has_caught_up_and_ends_by_ctrl_c(
    url: str, mp: Milepost, conn: Connection
) -> None:
    mp.append(conn, Message("T", {}, topic="slow"))
    with running_for_real(url) as run:
        wait_until(run.is_ready)
        assert run.readyz().body == {"ok": True, "failing": []}
        assert run.livez().body == {"ok": True, "failing": []}
        assert ask(f"{run.url}/livez?verbose", "HEAD").code == 200
        assert ask(f"{run.url}/metrics").code == 404
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(60) == 0


def test_all_requests_share_one_connection(url: str, conn: Connection) -> None:
    with running(url, only="chores") as run:
        wait_until(run.is_ready)
        for _ in range(REQUESTS):
            wait_until(run.is_ready)  # also if a look was held up since the last one
        asked = "select count(*) from pg_stat_activity where application_name = 'milepost health'"
        assert conn.execute(asked).fetchone() == (1,)


def test_a_slow_handler_is_behind_and_not_dead(url: str, mp: Milepost, conn: Connection) -> None:
    conn.execute(f"select pg_advisory_lock({GATE})".encode())
    mp.append(conn, Message("T", {}, topic="slow"))
    with running(url, "--ready-lag-seconds", "0.5", "--live-seconds", "2") as run:
        # Longer than a loop may take.
        wait_until(lambda: "behind (limit 0.5 s)" in run.readyz().why("slow"))
        wait_until(lambda: _seconds_behind(run.readyz().why("slow")) > 3)
        # If the handler counted, it never would be: nothing else ends while that is held.
        wait_until(run.is_live)
        conn.execute(f"select pg_advisory_unlock({GATE})".encode())
        wait_until(run.is_ready)


def _seconds_behind(why: str) -> int:
    return int(why.split()[2]) if why.endswith("behind (limit 0.5 s)") else 0


def test_a_member_that_is_restarted_is_alive_and_not_ready(
    url: str, mp: Milepost, conn: Connection
) -> None:
    """And the answer contains nothing of its data."""
    mp.append(conn, Message("T", {"card": SECRET}, topic="bad"))
    with running(url, only="picky") as run:
        wait_until(lambda: run.readyz().why("picky"))
        wait_until(lambda: "HandlerFailed" in run.readyz().why("picky"))
        assert SECRET not in str(run.readyz().body)
        assert run.livez().code == 200


def test_a_watcher_that_hangs_is_not_alive(url: str, conn: Connection) -> None:
    with running(url, "--live-seconds", "1") as run:
        wait_until(run.is_ready)
        wait_until(run.is_live)
        with conn.transaction():
            # It asks for what operators want, and gets no answer.
            conn.execute("lock table milepost.processors in access exclusive mode")
            wait_until(lambda: "has not turned for" in run.livez().why("milepost-watcher"))
            assert run.livez().code == 503
        wait_until(run.is_live)


def test_a_standby_is_ready_however_far_the_other_one_is_behind(
    url: str, mp: Milepost, conn: Connection
) -> None:
    strict = ("--ready-lag-seconds", "0")
    with running(url, *strict, only="turns") as first:
        wait_until(first.is_ready)
        conn.execute(f"select pg_advisory_lock({GATE})".encode())
        mp.append(conn, Message("T", {}, topic="turns"))
        wait_until(lambda: first.readyz().why("turns"))
        with running(url, *strict, only="turns") as second:
            wait_until(second.is_ready)
            assert first.readyz().code == 503
            conn.execute(f"select pg_advisory_unlock({GATE})".encode())
            wait_until(first.is_ready)


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    """One that can be stopped, and is started by whoever makes a database in it."""
    with postgres() as made:
        yield made


def test_a_server_that_is_stopped_is_said_quickly_and_waited_for(
    own_server: EmbeddedServer,
) -> None:
    url = migrated_database(own_server)
    with running(url) as run:
        wait_until(run.is_ready)
        own_server.stop()
        wait_until(lambda: run.readyz().why("database"))
        assert run.livez().code == 200
        own_server.start()
        wait_until(run.is_ready)


def test_a_worker_that_waits_for_the_server_is_alive(own_server: EmbeddedServer) -> None:
    """Its heartbeats, which cannot extend the lock of its job, look again and again."""
    url = migrated_database(own_server)
    with Milepost(url).connect() as conn:
        put(conn, Job("chores", 1))
    with running(url, "--live-seconds", "1", only="chores") as run:
        wait_until(run.is_ready)
        wait_until(lambda: has_begun(url))
        own_server.stop()
        wait_until(lambda: any("try=6 lost the server" in line for line in run.lines))

        def is_live_while_it_rests() -> bool:
            """Longer after each try than a loop may take, and before the next one."""
            before = len(run.lines)
            time.sleep(1.5)
            return run.is_live() and len(run.lines) == before

        wait_until(is_live_while_it_rests)


def has_begun(url: str) -> bool:
    with Milepost(url).connect() as conn:
        return conn.execute("select is_begun from milepost.jobs").fetchone() == (True,)


@pytest.mark.parametrize(("activity", "only"), [("process", "slow"), ("work", "chores")])
def test_the_privileges_of_the_run_are_enough(url: str, activity: str, only: str) -> None:
    with roles_in(url) as roles, running(roles.make(activity), only=only) as run:  # type: ignore[arg-type]  # one of those above
        wait_until(run.is_ready)


def test_a_port_that_is_taken_is_refused_before_anything_starts(url: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        result = Cli(url).run("run", APPLICATION, "--health", f"127.0.0.1:{port}")
    assert (result.code, "running" in result.stderr) == (1, False)
    assert f"Could not listen on 127.0.0.1 port {port}: Address already in use" in result.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--health", "8080"], "has no port"),
        (["--health", "127.0.0.1:0", "--processes", "2"], "the probes are of one process"),
    ],
)
def test_what_cannot_be_served_is_refused(url: str, options: list[str], why: str) -> None:
    result = Cli(url).run("run", APPLICATION, *options)
    assert (result.code, why in " ".join(result.stderr.split())) == (2, True), result.stderr


def test_a_host_of_another_machine_is_refused(worker: Milepost) -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1"):
        worker.run(health=("192.0.2.1", 0), until="drained")


def test_the_look_is_part_of_the_budget(url: str) -> None:
    """A worker needs the watcher's and two of its own, and one for jobs."""
    mp = with_worker(Milepost(url, max_connections=4))
    mp.run(until="drained")
    with pytest.raises(BudgetTooSmall, match="at least 5"):
        mp.run(until="drained", health=("127.0.0.1", 0), probe_limits=ProbeLimits())


def test_an_ipv6_address_is_served(url: str) -> None:
    if not has_ipv6():
        pytest.skip("there is no IPv6")
    with running(url, "--health", "[::1]:0", only="chores") as run:
        assert run.url.startswith("http://[::1]:")
        wait_until(run.is_ready)


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
