"""A real standby: transaction order can be read there, append order says why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from psycopg.conninfo import make_conninfo

from milepost import Message, Milepost, append, db
from milepost.errors import ReadOnlyServer, ReadOnStandby
from milepost.sql import LogOrder
from tests.server import postgres
from tests.standby import copy_cluster
from tests.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Pair:
    primary: str
    standby: str

    def on_primary(self, order: LogOrder) -> str:
        return make_conninfo(self.primary, dbname=order)

    def on_standby(self, order: LogOrder) -> str:
        return make_conninfo(self.standby, dbname=order)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A cluster with a log of each order, and a standby that follows it."""
    with postgres() as primary, postgres() as standby:
        url = primary.start()
        for order in ("append", "transaction"):
            with db.connect(url) as conn:
                conn.execute(f'create database "{order}"')
            Milepost(make_conninfo(url, dbname=order)).migrate(order)
        copy_cluster(primary, standby)
        yield Pair(url, standby.start())


def test_append_order_says_that_it_cannot_be_read_on_a_standby(pair: Pair) -> None:
    with db.connect(pair.on_primary("append")) as conn:
        append(conn, Message("T", {}))
    mp = Milepost(pair.on_standby("append"))
    wait_until(lambda: is_migrated(mp))
    with pytest.raises(ReadOnStandby, match="--order transaction"):
        list(mp.read())
    with pytest.raises(ReadOnStandby, match="read there"):
        mp.horizon()


def is_migrated(mp: Milepost) -> bool:
    with mp.connect():
        return True


def test_transaction_order_is_read_on_a_standby(pair: Pair) -> None:
    with db.connect(pair.on_primary("transaction")) as conn:
        positions = append(conn, *(Message("T", {"n": n}) for n in range(300)))
    mp = Milepost(pair.on_standby("transaction"))
    wait_until(lambda: [m.position for m in mp.read()][-300:] == positions)


def test_what_is_in_flight_on_the_primary_is_not_skipped_on_a_standby(pair: Pair) -> None:
    mp = Milepost(pair.on_standby("transaction"))
    url = pair.on_primary("transaction")
    with db.connect(url) as early, db.connect(url) as late:
        early.execute("begin")
        expected = append(early, Message("Early", {}))
        (after,) = append(late, Message("Late", {}))
        wait_until(lambda: has_arrived(pair, after.position))
        assert after not in [m.position for m in mp.read()]
        early.execute("commit")
    wait_until(lambda: [m.position for m in mp.read()][-2:] == [*expected, after])


def has_arrived(pair: Pair, position: int) -> bool:
    with db.connect(pair.on_standby("transaction")) as conn:
        found = conn.execute(
            "select from milepost.messages where position = %s", [position]
        ).fetchall()
    return bool(found)


@pytest.mark.parametrize("count", [1, 2, 300])
def test_a_standby_cannot_be_appended_to(pair: Pair, order: LogOrder, count: int) -> None:
    refused = pytest.raises(ReadOnlyServer, match=r"is a standby.* Connect to the primary")
    with db.connect(pair.on_standby(order)) as conn, refused:
        append(conn, *[Message("T", {})] * count)
