"""Waiting for what others do in the database: looked for soon, then less and less often."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

FIRST_SECONDS = 0.005
LONGEST_SECONDS = 0.1


def holds_within(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition holds before the time is up. Looked at once at least."""
    deadline = time.monotonic() + seconds
    wait = FIRST_SECONDS
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        Event().wait(min(wait, left))
        wait = min(wait * 2, LONGEST_SECONDS)
    return True
