"""Who is asked, and when nobody is asked any more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost import Checkpointing, Position, Segment
from milepost.processors.self_checkpointing.participants import ClaimOver, Participants
from milepost.runtime import EventLoop

SEGMENT = Segment(0, 0)
CONSUMED = Position(0, 9)


class Reporting(Checkpointing):
    """Reports one position after the other."""

    def __init__(self, *reports: int) -> None:
        self.reports = [Position(0, report) for report in reports]
        self.asked = 0

    def __call__(self, messages: object) -> None: ...

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Position:
        self.asked += 1
        return self.reports.pop(0)


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop("participants")
    yield loop
    loop.close()


def test_without_the_claim_nobody_is_asked(loop: EventLoop) -> None:
    member = Reporting(9)
    participants = Participants((member,), loop, 30.0)
    with pytest.raises(ClaimOver):
        participants.covered(SEGMENT, CONSUMED, CONSUMED, holds=lambda: False)
    with pytest.raises(ClaimOver):
        participants.released(SEGMENT, CONSUMED, holds=lambda: False)
    assert member.asked == 0


def test_nor_for_the_second_time(loop: EventLoop) -> None:
    """The one behind would be asked once more, for what the other has reached."""
    first, behind = Reporting(9), Reporting(5, 9)
    participants = Participants((first, behind), loop, 30.0)
    with pytest.raises(ClaimOver):
        participants.covered(SEGMENT, CONSUMED, CONSUMED, holds=lambda: behind.asked == 0)
    assert behind.asked <= 1
