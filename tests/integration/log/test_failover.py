"""After a failover the log refuses to go on until it is rebased: no position is given twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost import Message, append, db, log
from milepost.errors import LogRestored, PositionLost
from milepost.sql import LogOrder
from tests.integration.log.failover import Drill, failed_over


@pytest.fixture
def drill(order: LogOrder) -> Iterator[Drill]:
    with failed_over(order) as drill:
        yield drill


def test_a_promoted_standby_gives_no_position_twice(drill: Drill) -> None:
    """One test, because a drill takes seconds."""
    with pytest.raises(LogRestored, match=r"promoted.*Run it on the remaining server"):
        list(drill.mp.read())
    with db.connect(drill.url) as conn, pytest.raises(LogRestored, match="milepost rebase"):
        append(conn, Message("Too early", {}))
    with pytest.raises(LogRestored):
        drill.process()
    assert drill.early is not None
    with pytest.raises(LogRestored):
        log.horizon(drill.early)

    assert "are lost" in drill.mp.rebase()
    assert drill.mp.rebase().startswith("nothing")
    with db.connect(drill.url) as conn:
        new = append(conn, *(Message("Counted", {"n": n}) for n in range(1000, 1010)))

    assert not set(new) & set(drill.kept + drill.lost)
    assert min(new) > max(drill.lost)
    # Whoever has seen what is lost is told, and where to go on; whoever has not misses nothing.
    for position in drill.lost:
        with pytest.raises(PositionLost, match=f"Start from {drill.kept[-1]} "):
            list(drill.mp.read(position))
    assert [message.position for message in drill.mp.read(drill.kept[-1])] == new
    assert [message.position for message in drill.mp.read()] == drill.kept + new
    assert list(drill.mp.read(new[-1])) == []
    drill.process()
    assert drill.effects() == [*range(len(drill.kept)), *range(1000, 1010)]
