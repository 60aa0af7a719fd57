"""Waiting for a condition: what tests do instead of sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_SECONDS = 0.01


def wait_until(
    condition: Callable[[], object], seconds: float = 60.0, look_seconds: float = LOOK_SECONDS
) -> None:
    """Returns as soon as the condition holds; fails with its name if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {seconds} s: {condition}")
        time.sleep(look_seconds)
