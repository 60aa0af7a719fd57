"""Run processors, pipelines and workers in one process, until all have ended or a stop is asked
for."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, Protocol, TypeAlias

from milepost.errors import StopTimedOut

log = logging.getLogger("milepost.processors")
Until: TypeAlias = Literal["stopped", "caught_up", "drained"]


class Runnable(Protocol):
    """What can run until a stop is asked for, or until there is nothing to do for it now."""

    @property
    def name(self) -> str: ...
    def run(self, until: Any, stop: threading.Event) -> None: ...


@dataclass(slots=True)
class Group:
    """A thread each. The first that fails stops the others, and its error is raised."""

    members: Sequence[Runnable]
    stop_seconds: float = 30.0
    stop: threading.Event = field(default_factory=threading.Event)
    _errors: list[BaseException] = field(default_factory=list, init=False)

    def run(self, until: Until = "stopped") -> None:
        threads = [
            threading.Thread(target=self._run, args=(m, until), name=m.name, daemon=True)
            for m in self.members
        ]
        for thread in threads:
            thread.start()
        self._wait(threads)
        if self._errors:
            raise self._errors[0]

    def _run(self, member: Runnable, until: Until) -> None:
        try:
            member.run(until, self.stop)
        except BaseException as error:  # noqa: BLE001 - raised by `run`, in the caller's thread
            self._errors.append(error)
            self.stop.set()

    def _wait(self, threads: list[threading.Thread]) -> None:
        """Threads are joined with a time limit, because a join without one is deaf to signals."""
        while any(thread.is_alive() for thread in threads) and not self.stop.is_set():
            for thread in threads:
                thread.join(timeout=0.1)
        if not self.stop.is_set():
            return
        deadline = time.monotonic() + self.stop_seconds
        for thread in threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))
        if late := [thread.name for thread in threads if thread.is_alive()]:
            raise StopTimedOut(
                f"{', '.join(late)} did not finish within {self.stop_seconds:g} s. What was in "
                "hand is rolled back as the process ends; checkpoints stand before it, and jobs "
                "run again when their locks expire."
            )


@contextmanager
def stopping_on_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask for a stop. In another thread than the main one: nothing, as
    Python delivers no signals there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, _frame: FrameType | None) -> None:
        stop.set()
        log.info("signal=%s stopping", signal.Signals(number).name)

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
