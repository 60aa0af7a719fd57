"""How a removal leaves time to others."""

from __future__ import annotations

import pytest

from milepost.archive.retention import rest_seconds


@pytest.mark.parametrize(("share", "rest"), [(1.0, 0.0), (0.5, 0.02), (0.2, 0.08)])
def test_a_removal_rests_in_proportion_to_its_work(share: float, rest: float) -> None:
    assert rest_seconds(0.02, share) == pytest.approx(rest)
