"""An end to a demo that hangs, wherever it hangs."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class DemoTimedOut(MilepostError):
    """The demo did not come to its end in time."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raises in the main thread when the time is over, also inside a query: what was started
    is then ended on the way out."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise DemoTimedOut(f"the demo did not end within {seconds:.0f} s: giving up.")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
