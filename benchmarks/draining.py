"""What all figures that drain a queue share: fresh databases, settled before, and peers in turn."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from benchmarks import queue_worker
from benchmarks.peers import installed
from milepost import db
from milepost.queue import put

if TYPE_CHECKING:
    from benchmarks.peers.installed import Peer
    from benchmarks.workbench import Workbench
    from milepost.db import Connection

UNIT = "jobs/s"
COUNTED = "create table counted (id integer primary key, count integer not null)"
_TRIAL = 200


def drain_ours(bench: Workbench, handler: str, count: int) -> float:
    """Jobs a second of one of the handlers of queue_worker."""
    with bench.database() as url:
        with db.connect(url) as conn:
            conn.execute(COUNTED)
            put(conn, *(queue_worker.job(handler, seq) for seq in range(count)))
        settle(url)
        seconds = queue_worker.drain(url, handler, queue_worker.CHANNEL)
        with db.connect(url) as conn:
            check(conn, handler, count)
        return count / seconds


def check(conn: Connection, handler: str, count: int) -> None:
    """A side that leaves something out is not quick."""
    left = conn.execute("select count(*) from milepost.jobs").fetchone()
    done = conn.execute("select coalesce(sum(count), 0) from counted").fetchone()
    if left != (0,) or (queue_worker.has_effects(handler) and done != (count,)):
        raise RuntimeError(f"{handler}: {left} jobs are left, {done} of {count} were counted")


def drain_peer(bench: Workbench, peer: Peer, count: int) -> float:
    with bench.empty_database() as url:
        peer.fill(url, count)
        settle(url)
        return count / peer.drain(url, count)


def works(bench: Workbench, peer: Peer) -> bool:
    """Whether it drains a few jobs: what was installed may still not run here."""
    try:
        drain_peer(bench, peer, _TRIAL)
    except (OSError, subprocess.SubprocessError) as error:
        installed.note_missing(peer.name, error)
        return False
    return True


def settle(url: str) -> None:
    """What one side has written is not to be paid by the next."""
    with db.connect(url) as conn:
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")
