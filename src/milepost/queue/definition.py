"""What a worker is: its channels, its options, and how its handler is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, get_args

from milepost.feeds import check_feeds
from milepost.handlers import Handler
from milepost.queue.encode import LONGEST_CHANNEL, RESERVED
from milepost.queue.handlers.around import Hooks
from milepost.queue.handlers.call import Calls, HandlerCalls
from milepost.queue.handlers.resources import Resources
from milepost.queue.outcome import DEFAULT_RETRY, Cancel, Defer, RetryPolicy, check_retry
from milepost.telemetry import otel

if TYPE_CHECKING:
    from contextlib import AsyncExitStack, ExitStack

    from milepost.queue.handlers.call import Resolved

Handle: TypeAlias = Literal["job", "batch"]


class Options(TypedDict, total=False):
    """What `@mp.worker(channel, ...)` takes; the defaults are in WorkerOptions."""

    concurrency: int
    lock: float
    batch: int
    handle: Handle
    retry: RetryPolicy
    timeout: float | None
    poll_seconds: float
    listen: bool
    feeds: Sequence[str]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """All options of a worker, checked when they are made.

    `channel` is a name, or a prefix and a star. `lock`: after so many seconds without a heartbeat
    other workers may take its jobs. `batch`: how many jobs one take asks for at most; with
    `handle="batch"`, also the most that one call of the handler is given. `timeout`: a handler that
    runs for longer fails with JobTimedOut. Without `listen` it only polls and keeps no session
    state, as PgBouncer's transaction pooling requires.
    """

    channel: str
    concurrency: int = 10
    lock: float = 30.0
    batch: int = 500
    handle: Handle = "job"
    retry: RetryPolicy = DEFAULT_RETRY
    timeout: float | None = None
    poll_seconds: float = 1.0
    listen: bool = True
    feeds: Sequence[str] = ()  # what handlers append and put; for the graph

    def __post_init__(self) -> None:
        check_pattern(self.channel)
        check_retry(self.retry)
        check_feeds(self.feeds)
        if self.concurrency < 1 or self.batch < 1:
            raise ValueError("concurrency and batch are at least 1.")
        # Written so that NaN, which compares with nothing, is refused too.
        if not self.lock > 0 or not self.poll_seconds > 0:
            raise ValueError("lock and poll_seconds are more than 0.")
        if self.handle not in get_args(Handle):
            raise ValueError(f"handle is {self.handle!r}: expected 'job' or 'batch'.")
        check_timeout(self.timeout)

    @property
    def jobs_a_call(self) -> int:
        """The most that one call of the handler is given."""
        return self.batch if self.handle == "batch" else 1


@dataclass(frozen=True, slots=True)
class Definition:
    """A worker's options and its handler, with the hooks and resources of its application. These
    may be registered after it, so they are looked up when it starts."""

    options: WorkerOptions
    handler: Handler
    hooks: Hooks = field(default_factory=Hooks)
    resources: Resources = field(default_factory=Resources)

    def __post_init__(self) -> None:
        _ = self._calls  # refuses what could never be called

    @property
    def is_async(self) -> bool:
        return self._calls.is_async

    @property
    def is_of_tasks(self) -> bool:
        """Whether its jobs name what is called for them."""
        return isinstance(self.handler, Calls)

    @property
    def calls(self) -> Resolved:
        return self._calls.resolved(self.resources.names)

    @property
    def is_transactional(self) -> bool:
        """Whether its handler, or one of its tasks, takes the transaction."""
        return self.calls.is_transactional

    def check(self) -> None:
        """Refuses a handler that could not be called, before its worker starts."""
        self.resources.check(self.options.channel, self.calls, is_async=self.is_async)
        self._surrounded(self.handler)

    def open(self, stack: ExitStack) -> Handler:
        """What to call with a job, and with `tx` if it takes one. Its resources are open until the
        stack is closed."""
        calls = self.calls
        resources = self.resources.open(self.options.channel, calls, stack)
        return self._surrounded(calls.bound(resources))

    async def open_async(self, stack: AsyncExitStack) -> Handler:
        calls = self.calls
        resources = await self.resources.open_async(self.options.channel, calls, stack)
        return self._surrounded(calls.bound(resources))

    def _surrounded(self, handler: Handler) -> Handler:
        """With the hooks around it, and the span around all."""
        is_batch, channel = self.options.handle == "batch", self.options.channel
        handler = self.hooks.put_around(handler, channel, is_async=self.is_async, is_batch=is_batch)
        if otel is None:
            return handler
        about = otel.about_worker(channel, is_async=self.is_async, wishes=(Defer, Cancel))
        return partial(otel.processed, handler, about)

    @property
    def _calls(self) -> Calls:
        return self.handler if isinstance(self.handler, Calls) else HandlerCalls(self.handler)


def check_pattern(pattern: str) -> None:
    if not isinstance(pattern, str):
        raise TypeError(
            f"A worker needs the name of its channel, not {pattern!r}: @mp.worker('emails'), or "
            "@mp.worker('*') for all channels."
        )
    if not 0 < len(pattern) <= LONGEST_CHANNEL:
        raise ValueError(f"A channel's name takes 1 to {LONGEST_CHANNEL} characters.")
    if "*" in pattern[:-1]:
        raise ValueError(f"{pattern!r}: the star is allowed at the end only, as in 'tenant.*'.")
    if pattern.startswith(RESERVED):
        raise ValueError(
            f"{pattern!r}: channels that begin with {RESERVED!r} are for internal use, and have no "
            "workers."
        )


def check_timeout(seconds: float | None) -> None:
    if seconds is not None and not seconds > 0:
        raise ValueError(f"timeout is {seconds}: expected more than 0 seconds, or None.")
