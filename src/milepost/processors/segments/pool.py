"""The threads of an instance that handle messages: each serves one segment after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from milepost.processors.deliver.at_least_once import AtLeastOnce
from milepost.processors.deliver.transaction import Effects, ExactlyOnce, ExactlyOnceAsync
from milepost.processors.handler_call import NOTHING, Supply
from milepost.runtime import is_server_lost

if TYPE_CHECKING:
    from milepost.processors.definition import Definition
    from milepost.processors.segments.claimed_segment import ClaimedSegment
    from milepost.processors.segments.dispatch import Dispatch
    from milepost.processors.segments.serve import Service
    from milepost.runtime import AsyncLease, Connections, EventLoop, Lease

DEFAULT_THREADS = 16


@dataclass(slots=True, eq=False)
class ThreadLeases:
    """The connections of one pool thread. They belong to the thread, not to a segment: an instance
    needs as many as it handles segments concurrently, not as many as it has claimed."""

    definition: Definition
    sync: Lease
    tx: AsyncLease | None
    loop: EventLoop | None
    schema: str

    def effects(self, supply: Supply = NOTHING) -> Effects:
        """How the handlers take effect through this thread's connections, for one segment."""
        if self.definition.options.delivery == "at_least_once":
            return AtLeastOnce(self.definition, self.sync, self.schema, supply, self.loop)
        if self.tx is None:
            return ExactlyOnce(self.definition, self.sync, self.schema, supply)
        return ExactlyOnceAsync(self.definition, self.tx, self.schema, supply)

    def is_lost(self) -> bool:
        return self.sync.is_lost() or (self.tx is not None and self.tx.is_lost())

    def close(self) -> None:
        self.sync.close()
        if self.tx is not None:
            self.tx.close()


def thread_leases(
    definition: Definition,
    connections: Connections,
    schema: str,
    loop: EventLoop | None,
    stop: Event,
    sync: Lease | None = None,
) -> ThreadLeases:
    """`sync`: a lease that is there already."""
    name, tx = definition.options.name, None
    if (
        loop is not None
        and definition.options.delivery == "exactly_once"
        and definition.is_tx_async
    ):
        tx = connections.async_lease(name, stop, loop)
    return ThreadLeases(definition, sync or connections.lease(name, stop), tx, loop, schema)


@dataclass(slots=True)
class Pool:
    """Threads are started as segments come, up to a limit, and stay."""

    name: str
    limit: int
    dispatch: Dispatch
    service: Service
    make_leases: Callable[[], ThreadLeases]
    _lock: Lock = field(default_factory=Lock, init=False)
    _threads: list[Thread] = field(default_factory=list, init=False)
    _leases: list[ThreadLeases] = field(default_factory=list, init=False)
    _is_cut_off: bool = field(default=False, init=False)

    def grow(self, number: int) -> None:
        """As many threads as there is work for, up to the limit."""
        with self._lock:
            for n in range(len(self._threads), min(number, self.limit)):
                thread = Thread(target=self._work, name=f"{self.name}-{n}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def is_lost(self) -> bool:
        with self._lock:
            return self._is_cut_off or any(leases.is_lost() for leases in self._leases)

    def join(self) -> None:
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _work(self) -> None:
        try:
            self._serve_until_closed()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that runs the instance
            self.dispatch.fail(error)

    def _serve_until_closed(self) -> None:
        leases = self.make_leases()
        with self._lock:
            self._leases.append(leases)
        try:
            while (segment := self.dispatch.take()) is not None:
                self._serve(segment, leases)
        finally:
            with self._lock:
                self._is_cut_off = self._is_cut_off or leases.is_lost()
                self._leases.remove(leases)
            leases.close()

    def _serve(self, segment: ClaimedSegment, leases: ThreadLeases) -> None:
        """A failure ends the session, but not the thread: segments must still be given back."""
        try:
            self.service.serve(segment, leases)
        except BaseException as error:
            self.dispatch.fail(error)
            if leases.is_lost() or is_server_lost(error):
                self._is_cut_off = True
                raise
