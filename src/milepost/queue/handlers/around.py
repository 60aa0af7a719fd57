"""Hooks around a job: `@mp.around`, given the job and a call to go on.

The first that is registered is the outermost. They are put around the handler when its worker
starts, so that a worker without hooks does not know of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from milepost.handlers import Handler, is_async
from milepost.queue.handlers.call import named, parameters_of

if TYPE_CHECKING:
    from milepost.records import TakenJob

Hook: TypeAlias = Callable[..., Any]
H = TypeVar("H", bound=Hook)


@dataclass(frozen=True, slots=True)
class Around:
    """A hook and the channels of its jobs."""

    hook: Hook
    pattern: str

    @property
    def is_async(self) -> bool:
        return is_async(self.hook)

    def put_around(self, handler: Handler, *, is_for_all: bool) -> Handler:
        hook, pattern = self.hook, self.pattern

        def call(job: Any, *tx: Any) -> Any:
            return hook(job, partial(handler, job, *tx))

        def call_some(job: TakenJob, *tx: Any) -> Any:
            return (call if covers(pattern, job.channel) else handler)(job, *tx)

        return call if is_for_all else call_some


@dataclass(frozen=True, slots=True)
class Hooks:
    """All that were registered, in order."""

    _all: list[Around] = field(default_factory=list)

    def add(self, hook: H, pattern: str) -> H:
        if len(parameters_of(hook)) != 2:
            raise TypeError(
                f"{named(hook)} cannot be put around a job: a hook is given the job and a call to "
                "go on, as in def trace(job, call): return call()."
            )
        self._all.append(Around(hook, pattern))
        return hook

    def put_around(
        self, handler: Handler, pattern: str, *, is_async: bool, is_batch: bool = False
    ) -> Handler:
        for around in reversed(self.of(pattern, is_async=is_async, is_batch=is_batch)):
            handler = around.put_around(handler, is_for_all=covers(around.pattern, pattern))
        return handler

    def of(self, pattern: str, *, is_async: bool, is_batch: bool = False) -> list[Around]:
        """Those of a worker. A `def` hook cannot wait for an `async def` handler, so a hook is for
        handlers of its own colour. A list of jobs is of several channels: a hook for some of them
        is not for it."""
        meant = [
            around
            for around in self._all
            if covers(around.pattern, pattern) or (not is_batch and covers(pattern, around.pattern))
        ]
        fitting = [around for around in meant if around.is_async == is_async]
        if meant and not fitting:
            raise TypeError(_other_colour(meant[0], pattern, is_async=is_async))
        return fitting


def covers(pattern: str, other: str) -> bool:
    """Whether all channels of the other pattern (or channel) are channels of this one."""
    return pattern == other or (pattern.endswith("*") and other.startswith(pattern[:-1]))


def _other_colour(around: Around, pattern: str, *, is_async: bool) -> str:
    own, other = ("async def", "def") if is_async else ("def", "async def")
    return (
        f"The handler of {pattern!r} is {own}, and the hook {named(around.hook)} is {other}: it "
        f"would not be put around it. Register one that is {own} as well, or restrict this one to "
        "other channels: @mp.around(channel=...)."
    )
