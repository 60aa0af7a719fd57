"""A frozen process keeps its connections, its locks and its open transaction: others take over."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from milepost import Milepost, db
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.health import examine
from milepost.processors.segments.operations import list_segments
from milepost.runtime import Timing
from milepost.sql import DEFAULT_SCHEMA as SCHEMA
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running
from tests.roles import roles_in
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
CLAIM_SECONDS = 2.0
END = "select pid from milepost.end_silent_sessions('frozen', 1, 2)"
ALIVE = "select alive_until from milepost.instances"
KINDS: dict[str, dict[str, Any]] = {
    "segments": {"segments": 4},
    "plain": {},
    "at_least_once": {"delivery": "at_least_once"},
}
kinds = pytest.mark.parametrize("kind", KINDS)
# It says that it handles, is frozen there, and says how its next statement ended.
MAIN = """
import sys
from milepost import Milepost
from tests.integration.processors.running import leave_all
from tests.integration.processors.test_frozen import CLAIM_SECONDS, KINDS
url, kind = sys.argv[1:]
mp = Milepost(url)

def say(what):  # the line as one piece, beside other threads
    print(f"{what}\\n", end="", flush=True)

@mp.processor("frozen", **KINDS[kind], claim_seconds=CLAIM_SECONDS, poll_seconds=0.05)
def keep(messages, *tx):
    if tx:
        leave_all(messages, tx[0])
    say("handling")
    sys.stdin.readline()
    try:
        with mp.connect() as own:
            (tx[0] if tx else own).execute("select")
        say("went on")
    except Exception as error:
        say(type(error).__name__)
        raise

mp.run()
"""


@contextmanager
def frozen(url: str, kind: str, conn: Connection) -> Iterator[subprocess.Popen[str]]:
    """Stopped in its handler. It is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, url, kind],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert said(process) == "handling"
            wait_until(lambda: conn.execute(ALIVE).fetchall())  # its first sign of life
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def let_time_pass(conn: Connection) -> None:
    """Where no keeper extends a claim, a missed beat is noticed after some 20 s."""
    conn.execute("update milepost.instances set alive_until = clock_timestamp() - interval '1 min'")
    conn.execute(
        "update milepost.segments set claimed_until = clock_timestamp() - interval '1 min' "
        "where owner is not null"
    )


def standby(url: str, kind: str, effects: Effects) -> Any:
    def keep(messages: list[Any], *tx: Connection) -> None:
        leave_all(messages, tx[0] if tx else effects.conn)

    options = KINDS[kind] | {"claim_seconds": CLAIM_SECONDS, "poll_seconds": 0.05}
    return Milepost(url).processor("frozen", **options)(keep)


@kinds
def test_another_instance_takes_over_and_the_frozen_one_writes_nothing(
    url: str, conn: Connection, effects: Effects, put: Put, kind: str
) -> None:
    positions = put(20, keys=10)
    with frozen(url, kind, conn) as process, db.connect(url) as own:
        if kind != "segments":
            let_time_pass(conn)
        with running(standby(url, kind, Effects(own))):
            effects.wait_for(20)
            assert sorted(effects.positions()) == positions
            process.send_signal(signal.SIGCONT)
            assert process.stdin is not None
            process.stdin.close()  # no handler of it waits again, whatever it claims
            expected = "went on" if kind == "at_least_once" else "AdminShutdown"
            while (word := said(process)) == "handling":
                pass  # of another segment
            assert word == expected
            positions += put(20, keys=10)
            effects.wait_for(40)
    assert sorted(effects.positions()) == positions


@contextmanager
def ending(url: str) -> Iterator[Connection]:
    """It is ended by the server."""
    with suppress(psycopg.OperationalError), db.connect(url) as conn:
        yield conn


@kinds
def test_who_may_not_end_the_session_is_told_which_one_it_is(
    url: str, conn: Connection, effects: Effects, put: Put, kind: str
) -> None:
    put(5, keys=1)
    with roles_in(url) as roles, frozen(url, kind, conn):
        let_time_pass(conn)
        with db.connect(roles.make("process")) as other:
            assert other.execute(END).fetchall() == []
        with db.connect(roles.make("metrics")) as watching:
            claims = next(check for check in examine(watching).checks if check.name == "claims")
        assert "has been silent for" in claims.problems[0].what
        ((pid,),) = conn.execute("select pid from milepost.silent_sessions(null, null, 2)")
        assert f"pg_terminate_backend({pid})" in claims.problems[0].remedy
        kept = {status.kept_by for status in list_segments(conn, SCHEMA, CheckpointKey("frozen"))}
        assert kept == ({pid, None} if kind == "segments" else set())
        assert [row[0] for row in conn.execute(END)] == [pid]


def test_only_a_session_of_the_silent_instance_itself_is_ended(
    url: str, conn: Connection, mp: Milepost, effects: Effects, put: Put
) -> None:
    """A stranger may have the row locked, or the turn; or the lock that names the owner."""
    processor = mp.processor("frozen", segments=1)(leave_all)
    put(1)
    processor.run(until="caught_up")
    with db.connect(url) as stranger, db.connect(url) as other, ending(url) as itself:
        stranger.execute("begin")
        stranger.execute("select from milepost.checkpoints for update")
        stranger.execute(
            "select pg_advisory_xact_lock((h >> 32)::int, (h << 32 >> 32)::int) from "
            "hashtextextended('frozen 1', 'milepost.processors'::regclass::oid::bigint) as h"
        )
        other.execute("select pg_advisory_lock_shared(milepost.owner_key('gone'))")
        conn.execute(
            "update milepost.segments set owner = 'gone', claimed_until = clock_timestamp() - "
            "interval '1 hour'"
        )
        assert conn.execute(END).fetchall() == []
        stranger.execute("rollback")
        itself.execute("begin")
        itself.execute(
            "select milepost.store_checkpoint('frozen', 1, 0, row(c.transaction_id, c.position)::"
            "milepost.position, row(c.transaction_id, c.position + 1)::milepost.position, c.epoch, "
            "'gone') from milepost.checkpoints as c"
        )
        conn.execute("update milepost.segments set claimed_until = clock_timestamp()")
        assert conn.execute(END).fetchall() == [], "it may only be slow"
        conn.execute(
            "update milepost.segments set claimed_until = clock_timestamp() - interval '1 h'"
        )
        assert conn.execute(END).fetchall() == [(itself.info.backend_pid,)]


def test_a_slow_handler_of_a_processor_without_segments_gives_signs_of_life(
    url: str, conn: Connection, put: Put
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    mp = Milepost(url, timing=replace(Timing(), report_seconds=0.1))

    def handle(*_: object) -> None:
        begun.set()
        assert goes_on.wait(60)

    put(1)
    with running(mp.processor("slow", poll_seconds=0.05)(handle)):
        assert begun.wait(60)
        try:
            seen = set[object]()

            def is_seen_again() -> bool:
                seen.update(conn.execute(ALIVE))
                return len(seen) >= 3

            wait_until(is_seen_again)
        finally:
            goes_on.set()
    assert conn.execute(ALIVE).fetchall() == []
