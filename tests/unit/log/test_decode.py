from __future__ import annotations

import pytest

from milepost.log.decode import time_text

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (2**63 - 1, "infinity"),
        (-(2**63), "-infinity"),
        (0, "2000-01-01T00:00:00.000000+00:00"),
        (-1, "1999-12-31T23:59:59.999999+00:00"),
        (-730_119 * DAY, "0001-01-01T00:00:00.000000+00:00"),
        (-730_120 * DAY, "0001-12-31T00:00:00.000000+00:00 BC"),
        (2_921_940 * DAY, "10000-01-01T00:00:00.000000+00:00"),
    ],
)
def test_a_time_that_python_lacks_is_written_as_postgresql_writes_it(
    microseconds: int, text: str
) -> None:
    assert time_text(microseconds) == text
