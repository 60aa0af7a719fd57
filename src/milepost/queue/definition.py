"""What a worker is: its channels, and how its handler wants to be called."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TypedDict

from milepost.handlers import Handler, is_async
from milepost.queue.outcome import DEFAULT_RETRY, RetryPolicy

LONGEST_CHANNEL = 255


class Options(TypedDict, total=False):
    """What `@mp.worker(channel, ...)` takes; the defaults are in WorkerOptions."""

    concurrency: int
    lock: float
    batch: int
    retry: RetryPolicy
    poll_seconds: float
    listen: bool


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Everything about a worker but its handler; checked when it is made.

    `channel` is a name, or a prefix and a star. `lock`: after so many seconds without a sign of
    life, its jobs are another's. `batch`: the most that one take asks for. Without `listen` it
    only polls and keeps no session state, as PgBouncer's transaction pooling wants it.
    """

    channel: str
    concurrency: int = 10
    lock: float = 30.0
    batch: int = 500
    retry: RetryPolicy = DEFAULT_RETRY
    poll_seconds: float = 1.0
    listen: bool = True

    def __post_init__(self) -> None:
        check_pattern(self.channel)
        if self.concurrency < 1 or self.batch < 1:
            raise ValueError("concurrency and batch are at least 1.")
        # Written so that NaN, which compares with nothing, is refused too.
        if not self.lock > 0 or not self.poll_seconds > 0:
            raise ValueError("lock and poll_seconds are more than 0.")


@dataclass(frozen=True, slots=True)
class Definition:
    """A worker's options and its handler."""

    options: WorkerOptions
    handler: Handler

    @property
    def is_async(self) -> bool:
        return is_async(self.handler)

    @property
    def is_transactional(self) -> bool:
        """`handler(job, tx)`: whether it can be called with two arguments."""
        try:
            inspect.signature(self.handler).bind(None, None)
        except TypeError:
            return False
        except ValueError:  # a builtin without a signature
            return False
        return True


def check_pattern(pattern: str) -> None:
    if not 0 < len(pattern) <= LONGEST_CHANNEL:
        raise ValueError(f"A channel's name takes 1 to {LONGEST_CHANNEL} characters.")
    if "*" in pattern[:-1]:
        raise ValueError(f"{pattern!r}: the star stands at the end only, as in 'tenant.*'.")
