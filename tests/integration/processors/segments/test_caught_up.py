"""Having caught up means all segments, also those that are claimed while it is found out."""

from __future__ import annotations

from threading import Event

import pytest

from milepost import Milepost, Position
from milepost import log as the_log
from milepost.db import Connection
from milepost.processors.segments import session
from milepost.processors.segments.keeper import Keeper
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all
from tests.integration.processors.segments.claiming import KEY, START, claims


@pytest.fixture
def claiming_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are claimed just when the instance, which has none yet, takes the horizon that it
    is to reach."""
    is_asked, is_claimed = Event(), Event()
    claim = Keeper._claim

    def claim_late(keeper: Keeper, conn: Connection, number: int) -> None:
        assert is_asked.wait(30)
        claim(keeper, conn, number)
        is_claimed.set()

    def horizon(conn: Connection, schema: str) -> the_log.Horizon:
        taken = the_log.horizon(conn, schema)
        is_asked.set()
        assert is_claimed.wait(30)
        return taken

    monkeypatch.setattr(Keeper, "_claim", claim_late)
    monkeypatch.setattr(session, "horizon", horizon)


@pytest.mark.usefixtures("claiming_late")
def test_a_segment_behind_the_foremost_is_not_overlooked(
    mp: Milepost, conn: Connection, put: Put, effects: Effects
) -> None:
    positions = put(20, keys=20)
    claims("nobody").create(conn, 2, START)
    conn.execute(
        "update milepost.checkpoints set position = %s where segment = 0", [positions[-1].position]
    )
    processor = mp.processor(KEY.processor, segments=2)(leave_all)
    processor.run(until="caught_up")
    assert effects.positions() == of_segment_1(conn)


def of_segment_1(conn: Connection) -> list[Position]:
    rows = conn.execute(
        "select transaction_id, position from milepost.read(row(0, 0)::milepost.position, "
        "segment => row(1, 1)::milepost.segment)"
    ).fetchall()
    assert rows
    return [Position(*row) for row in rows]
