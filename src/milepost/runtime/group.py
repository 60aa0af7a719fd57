"""Run several members in one process: until they end, fail for good, or a stop is requested."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, Protocol

from milepost.errors import MilepostError, StopTimedOut
from milepost.retry import Retry
from milepost.runtime.lost_server import Backoff
from milepost.runtime.pulse import Pulses
from milepost.runtime.session import Until
from milepost.runtime.stop import Stop

if TYPE_CHECKING:
    from milepost.sql import Activity

log = logging.getLogger("milepost.runtime")
stacks = logging.getLogger("milepost.stacks")  # of errors that are told in a line
RESTART = Retry(first_seconds=1.0, longest_seconds=60.0)
REST_SECONDS = 0.02  # how long is looked whether others append while all members rest


class Member(Protocol):
    """A processor, pipeline, worker or scheduler."""

    @property
    def name(self) -> str: ...
    def run(self, until: Until, stop: threading.Event) -> None: ...

    def caught_up(self) -> bool:
        """Whether there is nothing to do for it now."""
        ...

    @property
    def activity(self) -> Activity:
        """What its role must be allowed to do."""
        ...

    @property
    def own_connections(self) -> int:
        """How many connections must stay free for its duties, so that its work cannot block
        them."""
        ...


@dataclass(slots=True)
class Group:
    """A thread for each member. A member that fails is restarted after a growing pause, and the
    others go on. With `is_fail_fast`, or where the run ends by itself, it is not restarted."""

    members: Sequence[Member]
    stop_seconds: float = 30.0
    stop: threading.Event = field(default_factory=Stop)
    is_fail_fast: bool = False
    restart: Retry = RESTART
    newest: Callable[[], object] = lambda: None  # changes when something is appended or put
    pulses: Pulses = field(default_factory=Pulses)
    _failures: dict[str, BaseException] = field(default_factory=dict, init=False)
    _threads: Sequence[threading.Thread] = field(default=(), init=False)
    _over: set[threading.Thread] = field(default_factory=set, init=False)

    def failures(self) -> dict[str, BaseException]:
        """Of the members that wait for their restart, or were not restarted."""
        return dict(self._failures)

    def gone(self) -> list[str]:
        """The members whose threads are not there, though nothing has ended them."""
        return [
            thread.name
            for thread in self._threads
            if not thread.is_alive() and thread not in self._over
        ]

    def run(self, until: Until = "stopped") -> None:
        """Raises the first error of those that have not recovered from theirs."""
        waiting, rounds = list(self.members), 0
        while waiting and not self.stop.is_set():
            self._run_all(waiting, until)
            rounds += 1
            if until == "stopped" or self._failures or self.stop.is_set():
                break
            waiting = [member for member in self.members if not member.caught_up()]
            if waiting and rounds >= len(self.members) and self._is_appended_by_others():
                break
        if self._failures:
            raise next(iter(self._failures.values()))

    def _is_appended_by_others(self) -> bool:
        """Each round handles what there was when it began. So what is left after as many rounds as
        members can only be the work of others, if they append while all members rest."""
        before = self.newest()
        return self.stop.wait(REST_SECONDS) or self.newest() != before

    def _run_all(self, members: Sequence[Member], until: Until) -> None:
        threads = [
            threading.Thread(target=self._run, args=(m, until), name=m.name, daemon=True)
            for m in members
        ]
        for thread in threads:
            thread.start()
        self._threads = threads
        # Joined with a time limit: a join without one does not let signals through.
        while any(thread.is_alive() for thread in threads) and not self.stop.is_set():
            for thread in threads:
                thread.join(timeout=0.1)
        if self.stop.is_set():
            self._wait_for_end(threads)

    def _run(self, member: Member, until: Until) -> None:
        with self.pulses.collecting():
            self._run_restarted(member, until)
        self._over.add(threading.current_thread())

    def _run_restarted(self, member: Member, until: Until) -> None:
        backoff = Backoff(self.restart)
        while True:
            started = time.monotonic()
            try:
                member.run(until, self.stop)
            except BaseException as error:  # noqa: BLE001 - raised by `run`, in the caller's thread
                if time.monotonic() - started > self.restart.longest_seconds:
                    backoff.reset()
                if not self._may_restart(member, error, until, backoff):
                    return
            else:
                self._failures.pop(member.name, None)
                return

    def _may_restart(
        self, member: Member, error: BaseException, until: Until, backoff: Backoff
    ) -> bool:
        """Waits for the time of the restart."""
        self._failures.setdefault(member.name, error)
        if self.is_fail_fast or not isinstance(error, Exception) or _ends_process(error):
            self.stop.set()
            return False
        if until != "stopped" or self.stop.is_set():
            return False
        seconds = backoff.next_seconds()
        log.error("member=%s failed, restarts in %.1f s: %s", member.name, seconds, error)
        stacks.debug("member=%s", member.name, exc_info=error)
        if self.stop.wait(seconds):
            return False
        # From here on it counts as recovered, until it fails again.
        self._failures.pop(member.name, None)
        return True

    def _wait_for_end(self, threads: Sequence[threading.Thread]) -> None:
        deadline = time.monotonic() + self.stop_seconds
        for thread in threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))
        late = [thread.name for thread in threads if thread.is_alive()]
        if not late:
            return
        error = StopTimedOut(
            f"{', '.join(late)} did not finish within {self.stop_seconds:g} s. Batches in flight "
            "are rolled back as the process ends; their checkpoints have not moved. Jobs in flight "
            "run again when their locks expire."
        )
        if not self._failures:
            raise error
        # The first cause is what is raised, so this is only logged.
        log.error("%s", error)


def _ends_process(error: Exception) -> bool:
    return isinstance(error, MilepostError) and error.ends_process


STDERR = 2
BURST_SECONDS = 1.0  # signals within this time are one stop: `timeout`, for one, sends two


def _end_now(number: int) -> NoReturn:
    """Without waiting for threads, which an exception would do."""
    _say(
        f"Ended by the second {'Ctrl-C' if number == signal.SIGINT else 'SIGTERM'}. Open "
        "transactions are rolled back, and jobs in flight run again when their locks expire."
    )
    os._exit(128 + number)  # what shells report for a program that the signal ended


def _say(text: str) -> None:
    """To the terminal, past the log: its handlers may hold a lock that this thread waits for."""
    with suppress(OSError):  # it may be closed
        os.write(STDERR, f"\n{text}\n".encode())


@contextmanager
def stopping_on_signals(
    stop: threading.Event, before_end: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """SIGTERM and SIGINT request a stop; one that comes BURST_SECONDS after the first or later ends
    the process immediately, after `before_end`. Nothing happens in threads other than the main one:
    Python delivers no signals there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: SimpleQueue[tuple[int, float] | None] = SimpleQueue()

    def note(number: int, _frame: FrameType | None) -> None:
        # Nothing else: the next signal may interrupt this, and would wait for ever for a lock that
        # is held here, such as that of an Event or of the log. This queue's `put` may be
        # interrupted by itself.
        noted.put((number, time.monotonic()))

    threading.Thread(
        target=_obey, args=(noted, stop, before_end), name="signals", daemon=True
    ).start()
    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        noted.put(None)


def _obey(
    noted: SimpleQueue[tuple[int, float] | None],
    stop: threading.Event,
    before_end: Callable[[], None],
) -> None:
    """Until None is noted."""
    if (first := noted.get()) is None:
        return
    number, at = first
    stop.set()
    log.info("signal=%s stopping", signal.Signals(number).name)
    hint_seconds = BURST_SECONDS if number == signal.SIGINT else None
    while True:
        try:
            again = noted.get(timeout=hint_seconds)
        except Empty:
            _say("Stopping: what runs may finish. Press Ctrl-C again to end immediately.")
            hint_seconds = None
            continue
        if again is None:
            return
        if again[1] - at >= BURST_SECONDS:
            before_end()
            _end_now(again[0])
