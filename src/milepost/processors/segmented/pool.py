"""The threads of an instance that handle messages: each serves one segment after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from milepost.processors.segmented.board import Board
    from milepost.processors.segmented.hands import Hands
    from milepost.processors.segmented.service import Service
    from milepost.processors.segmented.slot import Slot

DEFAULT_THREADS = 16


@dataclass(slots=True)
class Pool:
    """Threads are started as segments come, up to a limit, and stay. A thread connects when it
    first has something to do."""

    name: str
    limit: int
    board: Board
    service: Service
    open_hands: Callable[[], Hands]
    _lock: Lock = field(default_factory=Lock, init=False)
    _threads: list[Thread] = field(default_factory=list, init=False)
    _hands: list[Hands] = field(default_factory=list, init=False)
    _is_cut_off: bool = field(default=False, init=False)

    def grow(self, number: int) -> None:
        """As many threads as there is work for, at once."""
        with self._lock:
            for n in range(len(self._threads), min(number, self.limit)):
                thread = Thread(target=self._work, name=f"{self.name}-{n}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def is_lost(self) -> bool:
        with self._lock:
            return self._is_cut_off or any(hands.is_lost() for hands in self._hands)

    def join(self) -> None:
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _work(self) -> None:
        try:
            self._serve_until_closed()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that runs the instance
            self.board.fail(error)

    def _serve_until_closed(self) -> None:
        hands: Hands | None = None
        try:
            while (slot := self.board.take()) is not None:
                hands = hands or self._connect(slot)
                self._serve(slot, hands)
        finally:
            if hands is not None:
                with self._lock:
                    self._is_cut_off = self._is_cut_off or hands.is_lost()
                    self._hands.remove(hands)
                hands.close()

    def _serve(self, slot: Slot, hands: Hands) -> None:
        """A failure ends the session, but not the thread: segments are still to be given back."""
        try:
            self.service.serve(slot, hands)
        except BaseException as error:
            self.board.fail(error)
            if hands.is_lost():
                raise

    def _connect(self, slot: Slot) -> Hands:
        try:
            hands = self.open_hands()
        except BaseException as error:
            self._is_cut_off = isinstance(error, psycopg.OperationalError)
            self.board.remove(slot)
            raise
        with self._lock:
            self._hands.append(hands)
        return hands
