"""What a worker is: its channels, its options, and how its handler is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from milepost.binding import binding_of
from milepost.feeds import check_feeds
from milepost.handlers import Handler
from milepost.queue.encode import LONGEST_CHANNEL, RESERVED
from milepost.queue.handlers.around import Hooks
from milepost.queue.handlers.call import Calls, HandlerCalls, named
from milepost.queue.handlers.resources import Resources
from milepost.queue.outcome import DEFAULT_RETRY, Cancel, Defer, RetryPolicy, check_retry
from milepost.telemetry import otel

if TYPE_CHECKING:
    from contextlib import AsyncExitStack, ExitStack

    from milepost.binding import Binding
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
    session: Any


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """All options of a worker, checked when they are made.

    `channel` is a name, or a prefix and a star. `lock`: after so many seconds without a heartbeat
    other workers may take its jobs. `batch`: how many jobs one take asks for at most; with
    `handle="batch"`, also the most that one call of the handler is given. `timeout`: a handler that
    runs for longer fails with JobTimedOut. Without `listen` it only polls and keeps no session
    state, as PgBouncer's transaction pooling requires. `session`: what makes the object that
    handlers are given as their transaction, instead of a connection; then a Binding.
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
    session: Any = None

    def __post_init__(self) -> None:
        check_pattern(self.channel)
        check_retry(self.retry)
        check_feeds(self.feeds)
        if self.session is not None:
            object.__setattr__(self, "session", binding_of(self.session))
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
        calls = self._calls  # refuses what could never be called
        if (session := self.options.session) is not None and not self.is_of_tasks:
            session.check(is_async=calls.is_async)
            if not self.is_transactional:
                raise TypeError(
                    f"The worker of {self.options.channel!r} has session=, and its handler "
                    f"{named(self.handler)} takes no transaction: add a parameter, as in "
                    "def send(job, session)."
                )

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
        if (session := self.options.session) is not None and self.is_transactional:
            session.check(is_async=self.is_async)
        self._surrounded(self.handler)

    def open(self, stack: ExitStack) -> Handler:
        """What to call with a job, and with `tx` if it takes one. Its resources are open until the
        stack is closed."""
        calls = self.calls
        resources = self.resources.open(self.options.channel, calls, stack)
        return self._surrounded(self._bound(calls.bound(resources)))

    async def open_async(self, stack: AsyncExitStack) -> Handler:
        calls = self.calls
        resources = await self.resources.open_async(self.options.channel, calls, stack)
        return self._surrounded(self._bound(calls.bound(resources)))

    def _bound(self, handler: Handler) -> Handler:
        """To be called with the connection, and given what `session=` makes of it. What that holds
        back is written inside the call: it is part of the handler, its time limit and its span."""
        if (binding := self.options.session) is None:
            return handler
        return partial(_call_bound_async if self.is_async else _call_bound, binding, handler)

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
        if isinstance(self.handler, Calls):
            return self.handler
        return HandlerCalls(self.handler, has_session=self.options.session is not None)


def _call_bound(binding: Binding, handler: Handler, job: Any, conn: Any = None) -> Any:
    """Without a connection: of a task that takes none, beside others that do."""
    if conn is None:
        return handler(job)
    with binding.bound(conn) as session:
        return handler(job, session)


async def _call_bound_async(binding: Binding, handler: Handler, job: Any, conn: Any = None) -> Any:
    if conn is None:
        return await handler(job)
    async with binding.bound_async(conn) as session:
        return await handler(job, session)


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
