"""A drill: the primary dies with messages that its asynchronous standby never got.

Whoever is outside of the database has seen them: a reader with a position of its own. Whoever is
inside, a processor, has lost its checkpoint and its effects along with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from psycopg.conninfo import make_conninfo

from milepost import Message, Milepost, Position, RecordedMessage, append, db, log
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.crashing import kill
from tests.server import postgres
from tests.standby import copy_cluster, promote, stop_following
from tests.waiting import wait_until

REPLICATED = 30
LOST = 20
# Its ANALYZE would hold the horizon of a log in transaction order for a moment.
SETTINGS = {"autovacuum": "off"}


@dataclass(slots=True)
class Drill:
    """After the primary died, and before anybody has rebased."""

    url: str  # of the promoted standby
    kept: list[Position] = field(default_factory=list)
    lost: list[Position] = field(default_factory=list)
    early: Connection | None = None  # a reader's session that was open during the promotion

    @property
    def mp(self) -> Milepost:
        return Milepost(self.url)

    def process(self) -> None:
        """Everything there is, by a processor whose effects are rows."""
        keeping(self.mp)

    def effects(self) -> list[int]:
        with db.connect(self.url) as conn:
            return [n for (n,) in conn.execute("select n from effects order by n")]


@contextmanager
def failed_over(order: LogOrder) -> Iterator[Drill]:
    with postgres(SETTINGS) as primary, postgres(SETTINGS) as standby:
        name = f"drill_{uuid4().hex[:8]}"
        with db.connect(primary.start()) as conn:
            conn.execute(f"create database {name}".encode())
        url = make_conninfo(primary.start(), dbname=name)
        Milepost(url).migrate(order)
        copy_cluster(primary, standby)
        drill = Drill(make_conninfo(standby.start(), dbname=name))
        with db.connect(url) as conn:
            conn.execute("create table effects (n integer)")
            drill.kept = appended(conn, range(REPLICATED))
            keeping(Milepost(url))
            wait_for_replay(conn, drill.url)
            stop_following(standby)
            drill.lost = appended(conn, range(REPLICATED, REPLICATED + LOST))
            keeping(Milepost(url))
        seen = [message.position for message in Milepost(url).read()]
        assert seen == drill.kept + drill.lost
        kill(primary)
        with db.connect(drill.url) as early:
            if order == "transaction":
                assert log.horizon(early).position == drill.kept[-1]
            promote(standby)
            drill.early = early
            yield drill


def appended(conn: Connection, numbers: range) -> list[Position]:
    """One by one, with what is rolled back in between."""
    positions: list[Position] = []
    for n in numbers:
        positions += append(conn, Message("Counted", {"n": n}))
        with conn.transaction(force_rollback=True):
            append(conn, Message("Undone", {}))
    return positions


def keeping(mp: Milepost) -> None:
    @mp.processor("keep", batch_size=7)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute("insert into effects values (%s)", [message.data["n"]])

    keep.run("caught_up")


def wait_for_replay(conn: Connection, standby: str) -> None:
    row = conn.execute("select pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    with db.connect(standby) as other:
        wait_until(
            lambda: (
                other.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", [row[0]]).fetchone()
                == (True,)
            )
        )
