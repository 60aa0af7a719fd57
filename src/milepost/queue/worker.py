"""A worker as its author holds it: callable as its handler, and runnable."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from milepost import db
from milepost.queue.runner import Runner

if TYPE_CHECKING:
    from milepost.queue.definition import Definition
    from milepost.queue.runner import Until


@dataclass(frozen=True, slots=True)
class Worker:
    """Made by `@mp.worker(...)`. Calling it calls the handler, as in a unit test."""

    definition: Definition
    url: str = field(repr=False)
    schema: str

    @property
    def name(self) -> str:
        return self.definition.options.channel

    def __call__(self, *arguments: Any) -> Any:
        return self.definition.handler(*arguments)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        """Run in this thread until `stop` is set, or until its channels are drained."""
        with db.acting(self.url, "work"):
            Runner(self.definition, self.url, self.schema, stop or Event()).run(until)
