"""A stale owner does nothing: also one that was stopped while its segment was cut in two, and goes
on with what it had read. The position alone would not stop it: the half is where the whole was."""

from __future__ import annotations

from threading import Event

from milepost import Milepost, db
from milepost.db import Connection
from milepost.log import horizon, read_batch
from milepost.processors.deliver.transaction import Conflict
from milepost.processors.segments import operations
from milepost.processors.segments.pool import thread_leases
from milepost.processors.segments.work import SegmentWork, Surroundings
from milepost.runtime import Connections, Timing
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all
from tests.integration.processors.segments.claiming import KEY, START, claims, expire

COMPARISON = "and c.epoch = store_checkpoint.epoch"


def doubled(mp: Milepost, url: str, conn: Connection, put: Put, effects: Effects) -> int:
    """How many effects happen twice."""
    processor = mp.processor(KEY.processor, segments=1)(leave_all)
    put(20, keys=20)
    stale_owner = claims("a")
    stale_owner.create(conn, 1, START)
    (claim,) = stale_owner.claim(conn, 1)
    in_hand = read_batch(conn, START, horizon(conn))
    expire(conn, "a")
    operations.split(lambda: db.connect(url), "milepost", KEY)
    around = Surroundings(processor.definition, "a", "milepost", Event(), lambda _: None, Timing())
    leases = thread_leases(processor.definition, Connections(url), "milepost", None, Event())
    try:
        SegmentWork(around, claim, lambda: None).deliver(in_hand, leases)
    except Conflict:
        assert effects.count() == 0
    finally:
        leases.close()
    processor.run(until="caught_up")
    return effects.count() - len(set(effects.positions()))


def test_a_stale_owner_that_goes_on_leaves_no_effect(
    mp: Milepost, url: str, conn: Connection, put: Put, effects: Effects
) -> None:
    assert doubled(mp, url, conn, put, effects) == 0
    assert effects.count() == 20


def test_without_comparing_epochs_its_effects_happen_twice(
    mp: Milepost, url: str, conn: Connection, put: Put, effects: Effects
) -> None:
    row = conn.execute(
        "select pg_get_functiondef(oid) from pg_proc where proname = 'store_checkpoint'"
    ).fetchone()
    assert row is not None
    assert COMPARISON in row[0]
    conn.execute(row[0].replace(COMPARISON, ""))
    assert doubled(mp, url, conn, put, effects) > 0
