"""Resources: what lives as long as a worker, such as a client or a model, handed to handlers by
name.

A resource is a generator with one yield: what is before the yield opens it, what is after it closes
it. Each worker opens those that its handler names, before it takes its first job.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import (
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from milepost.errors import ResourceFailed
from milepost.queue.handlers.call import named, parameters_of

if TYPE_CHECKING:
    from milepost.queue.handlers.call import Resolved

Generator: TypeAlias = Callable[[], Any]
G = TypeVar("G", bound=Generator)
RESERVED = ("job", "jobs", "tx", "call")


@dataclass(frozen=True, slots=True)
class Resources:
    """All that were registered, by name."""

    _all: dict[str, Generator] = field(default_factory=dict)

    def add(self, function: G, name: str | None = None) -> G:
        generator = inspect.unwrap(function)  # of contextlib.contextmanager
        if not is_generator(generator) or parameters_of(generator):
            raise TypeError(
                f"{named(function)} cannot be a resource: it must be a function without parameters "
                "with one yield, which yields the resource; what follows the yield closes it."
            )
        called = name or generator.__name__
        if called in self._all or called in RESERVED:
            reason = "is reserved" if called in RESERVED else "is taken already"
            raise ValueError(f"The name {called!r} of a resource {reason}.")
        self._all[called] = generator
        return function

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._all)

    def check(self, channel: str, calls: Resolved, *, is_async: bool) -> None:
        """Refuses a worker whose handler names what is not there."""
        if calls.missing:
            known = ", ".join(sorted(self._all)) or "none"
            raise TypeError(
                f"The worker of {channel!r} cannot start: there is nothing to give for "
                f"{', '.join(calls.missing)}. A parameter of a handler is the job, tx, or a "
                f"resource; the resources are: {known}. Register it with @mp.resource, or give the "
                "parameter a default."
            )
        for name in sorted(calls.resources):
            if not is_async and inspect.isasyncgenfunction(self._all[name]):
                raise TypeError(
                    f"The worker of {channel!r} cannot start: its handler is def, and the resource "
                    f"{name!r} is async. Make the handler async def, or the resource def."
                )

    def open(self, channel: str, calls: Resolved, stack: ExitStack) -> dict[str, Any]:
        """They are closed with the stack, in reverse order."""
        opened = {}
        for name in sorted(calls.resources):
            with opening(channel, name):
                opened[name] = stack.enter_context(contextmanager(self._all[name])())
        return opened

    async def open_async(
        self, channel: str, calls: Resolved, stack: AsyncExitStack
    ) -> dict[str, Any]:
        """Of either colour, on the event loop of the handlers."""
        opened = {}
        for name in sorted(calls.resources):
            generator = self._all[name]
            with opening(channel, name):
                if inspect.isasyncgenfunction(generator):
                    manager = asynccontextmanager(generator)()
                    opened[name] = await stack.enter_async_context(manager)
                else:
                    opened[name] = stack.enter_context(contextmanager(generator)())
        return opened


@contextmanager
def opening(channel: str, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ResourceFailed(channel, name, f"{type(error).__name__}: {error}") from error


def is_generator(function: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
