"""Failovers, one after the other: no position is given twice, nothing inside is lost or doubled."""

from __future__ import annotations

import pytest

from milepost import Message, append, db
from milepost.sql import LogOrder
from tests.chaos.options import SECONDS
from tests.integration.log.failover import failed_over
from tests.soak import Figures

DRILLS = 10 if SECONDS >= 60 else 2


@pytest.mark.soak
@pytest.mark.parametrize("number", range(DRILLS))
def test_no_position_is_given_twice(order: LogOrder, number: int, figures: Figures) -> None:
    with failed_over(order) as drill:
        drill.mp.rebase()
        with db.connect(drill.url) as conn:
            new = append(conn, *(Message("Counted", {"n": 1000 + n}) for n in range(number + 1)))
        twice = set(new) & set(drill.kept + drill.lost)
        drill.process()
        effects, expected = drill.effects(), [*range(len(drill.kept)), *range(1000, 1001 + number)]
        figures(
            messages=len(drill.kept + drill.lost + new),
            kills=1,
            lost=len(set(expected) - set(effects)),
            doubled=len(effects) - len(set(effects)),
        )
        assert not twice
        assert effects == expected
