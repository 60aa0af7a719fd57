"""A worker: callable as its handler, and a member of a run."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar

from milepost import db
from milepost.queue.handlers.around import covers
from milepost.queue.worker.idle import is_drained
from milepost.queue.worker.loop import Runner
from milepost.runtime import refuse_unknown_end

if TYPE_CHECKING:
    from milepost.queue.definition import Definition
    from milepost.runtime import Runtime, Until
    from milepost.sql import Activity


@dataclass(frozen=True, slots=True)
class Worker:
    """Made by `@mp.worker(...)`. Calling it calls the handler, as in a unit test."""

    definition: Definition
    runtime: Runtime
    activity: ClassVar[Activity] = "work"
    own_connections: ClassVar[int] = 2  # to settle jobs, and to extend their locks

    @property
    def name(self) -> str:
        """The channel, or the pattern of channels."""
        return self.definition.options.channel

    def __call__(self, *arguments: Any) -> Any:
        return self.definition.handler(*arguments)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        """Run in this thread until `stop` is set, or until its channels are drained."""
        refuse_unknown_end(until)
        self.runtime.reserve([self])
        self.definition.check()
        with db.acting(self.runtime.url, "work"), ExitStack() as stack:
            # The resources of an `async def` are opened on its event loop.
            handler = None if self.definition.is_async else self.definition.open(stack)
            Runner(self.definition, self.runtime, stop or Event(), handler).run(until)

    def caught_up(self) -> bool:
        """Whether nothing is left to do now in its channels."""
        with db.connect(self.runtime.url) as conn, db.acting(conn, "work"):
            return is_drained(conn, self.runtime.schema, self.name)


def check_workers(members: Iterable[object]) -> None:
    """Refuses workers whose handlers could not be called, before anything starts: a mistake of the
    program is not repaired by a restart."""
    workers = [member for member in members if isinstance(member, Worker)]
    for worker in workers:
        worker.definition.check()
        if worker.definition.is_of_tasks:
            refuse_takers_of_tasks(worker, workers)


def refuse_takers_of_tasks(worker: Worker, workers: Iterable[Worker]) -> None:
    """A handler of all channels would be given tasks, which it does not know."""
    for other in workers:
        if other is not worker and covers(other.name, worker.name):
            raise ValueError(
                f"The worker of {other.name!r} would take jobs of the channel {worker.name!r}, "
                "which are tasks. Nothing was started. Narrow its pattern, or give the tasks "
                "a channel that it does not match."
            )
