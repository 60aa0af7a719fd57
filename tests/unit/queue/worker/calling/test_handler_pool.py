from __future__ import annotations

import math
import time
from datetime import UTC, datetime

import pytest

from milepost.queue.worker.calling.handler_pool import may_begin
from milepost.records import TakenJob


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"lost": True}, False),
        ({"cancelled": True}, False),
        ({"deadline": time.monotonic() - 0.001}, False),
        ({"deadline": math.inf}, True),  # the test may run long after this
    ],
)
def test_nothing_is_begun_that_is_another_s_or_whose_lock_may_have_expired(
    change: dict[str, object], expected: bool
) -> None:
    run_at = datetime(2030, 1, 1, tzinfo=UTC)
    job = TakenJob(1, "c", 1, 0, 25, 0, run_at, b"null", None, None, False)
    for name, value in change.items():
        setattr(job, name, value)
    assert may_begin(job) == expected
