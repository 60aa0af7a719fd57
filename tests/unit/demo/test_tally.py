from __future__ import annotations

from typing import Any, TypeAlias
from uuid import UUID, uuid4

import pytest

from milepost import Position
from milepost_demo.tally import Counts, Tally

Sighting: TypeAlias = tuple[UUID, Position, dict[str, Any]]


def sighting(position: int, *, id_: UUID | None = None, is_kept: bool = True) -> Sighting:
    data = {"writer": 0, "number": position, "is_kept": is_kept}
    return id_ or uuid4(), Position(0, position), data


def counted(*sightings: Sighting, lost: int = 0) -> Counts:
    tally = Tally()
    for seen in sightings:
        tally.see(*seen)
    missing = {uuid4() for _ in range(lost)}
    return tally.counted({id_ for id_, _, data in sightings if data["is_kept"]} | missing)


def test_everything_once_and_in_order_is_faultless() -> None:
    counts = counted(*(sighting(n) for n in range(1, 4)))
    assert counts == Counts(3, 3, 0, 0, 0, 0)
    assert counts.is_faultless


def test_having_read_nothing_proves_nothing() -> None:
    assert not counted().is_faultless


def test_what_was_committed_and_not_read_is_lost() -> None:
    counts = counted(sighting(1), lost=2)
    assert (counts.lost, counts.is_faultless) == (2, False)


def test_what_was_read_twice_is_doubled() -> None:
    same = uuid4()
    counts = counted(sighting(1, id_=same), sighting(2, id_=same))
    assert (counts.doubled, counts.lost, counts.is_faultless) == (1, 0, False)


@pytest.mark.parametrize("second", [1, 2])
def test_a_position_that_does_not_grow_is_out_of_order(second: int) -> None:
    counts = counted(sighting(2), sighting(second))
    assert (counts.out_of_order, counts.is_faultless) == (1, False)


def test_a_writers_own_messages_come_in_its_order() -> None:
    tally = Tally()
    for position, (writer, number) in enumerate([(0, 5), (1, 1), (0, 6), (1, 0)], start=1):
        data = {"writer": writer, "number": number, "is_kept": True}
        tally.see(uuid4(), Position(0, position), data)
    assert tally.out_of_order == 1


def test_what_was_rolled_back_must_not_be_seen() -> None:
    counts = counted(sighting(1), sighting(2, is_kept=False))
    assert (counts.rolled_back, counts.is_faultless) == (1, False)
