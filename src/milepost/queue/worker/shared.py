"""What the threads of one worker share: the one that takes jobs, the handlers, the settler and the
heartbeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from milepost.queue.worker.buffer import Buffer
from milepost.queue.worker.rates import Rates
from milepost.runtime import Bell, Repeats

if TYPE_CHECKING:
    from milepost.handlers import Handler
    from milepost.queue.definition import Definition, WorkerOptions
    from milepost.runtime import AsyncLease, Lease, OnNotice, Runtime

TAKING = 1  # the connection that takes jobs


@dataclass(slots=True)
class Shared:
    """`bell` wakes the thread that takes jobs. After `stop` no handler waits for a server that
    cannot be reached; after `over` nobody does."""

    definition: Definition
    runtime: Runtime
    stop: Event
    handler: Handler | None = None  # with its resources and hooks; `async def` opens its own
    over: Event = field(default_factory=Event)
    bell: Bell = field(default_factory=Bell)
    buffer: Buffer = field(default_factory=Buffer)
    repeats: Repeats = field(default_factory=Repeats)
    rates: Rates = field(init=False)
    failure: BaseException | None = None
    # How many handlers there are. Not computed at every look: it is found in their signatures.
    concurrency: int = field(init=False)

    def __post_init__(self) -> None:
        self.concurrency = self._concurrency()
        timing = self.runtime.timing
        # A whole take of slower jobs would keep the handlers busy for too long.
        slow_seconds = timing.held_seconds * self.jobs_at_a_time / self.options.batch
        self.rates = Rates(timing.report_seconds, slow_seconds)

    @property
    def options(self) -> WorkerOptions:
        return self.definition.options

    @property
    def channel(self) -> str:
        return self.options.channel

    def _concurrency(self) -> int:
        """What is wanted; with transactions, not more than the budget can give a
        connection, beside the one that takes jobs, if no other member of the process needs one."""
        wanted, connections = self.options.concurrency, self.runtime.connections
        if not self.definition.is_transactional:
            return wanted
        return min(wanted, max(1, connections.most - connections.own - TAKING))

    @property
    def jobs_at_a_time(self) -> int:
        """How many jobs its handlers can have begun and not finished."""
        return self.concurrency * self.options.jobs_a_call

    @property
    def schema(self) -> str:
        return self.runtime.schema

    def lease(self, *, is_own: bool = False, on_notice: OnNotice | None = None) -> Lease:
        """`is_own`: for what must never wait for handlers."""
        return self.runtime.connections.lease(
            self.channel,
            self.over if is_own else self.stop,
            is_own=is_own,
            is_pooled=not self.options.listen,
            on_notice=on_notice,
        )

    def async_lease(self) -> AsyncLease:
        return self.runtime.connections.async_lease(
            self.channel, self.stop, is_pooled=not self.options.listen
        )

    def fail(self, error: BaseException) -> None:
        """Ends the worker, which raises the first failure."""
        self.failure = self.failure or error
        self.over.set()
        self.bell.ring()
