"""Keeps the claims of one instance: a thread of its own, which never handles a message, so that
neither a slow handler nor a saturated pool loses one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg

from milepost.processors.segmented.sharing import plan

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.segmented.board import Board
    from milepost.processors.segmented.claims import Claim, Claims
    from milepost.processors.segmented.work import SegmentWork

BEAT_SECONDS = 1.0
FAILURES = 5
log = logging.getLogger("milepost.processors")


@dataclass(slots=True)
class Keeper:
    claims: Claims
    conn: Connection  # used by this thread alone
    board: Board
    make_work: Callable[[Claim], SegmentWork]
    rate: Callable[[], float]
    on_claimed: Callable[[int], None]  # told how many there are now
    _stop: Event = field(default_factory=Event, init=False)
    _leaving: Event = field(default_factory=Event, init=False)
    _failures: int = field(default=0, init=False)
    _thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        name = f"{self.claims.key.processor}-claims"
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Claim nothing more; what is there is kept until it is given back."""
        self._leaving.set()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def beat(self) -> float:
        """Tend the claims, give back and take; the seconds until the next beat."""
        sent_at = time.monotonic()
        # Looked at first: what is claimed or given back after the answer must not look lost.
        here, leaving = self.board.epochs()
        tended = self.claims.tend(self.conn, self.rate())
        self.board.extend(dict(tended.epochs), sent_at + self.claims.claim_seconds)
        todo = plan(tended, here, leaving)
        self.board.lose(todo.lost)
        self.board.leave(todo.release)
        for id_, epoch in todo.stray.items():
            self.claims.release(self.conn, id_, epoch)
        if todo.claim and not self._leaving.is_set():
            self._claim(todo.claim)
        return tended.seconds_to_next(self._beat_seconds)

    @property
    def _beat_seconds(self) -> float:
        return min(BEAT_SECONDS, self.claims.claim_seconds / 3)

    def _claim(self, number: int) -> None:
        sent_at = time.monotonic()
        found = [(c, self.make_work(c)) for c in self.claims.claim(self.conn, number)]
        for claim in self.board.add(found, sent_at + self.claims.claim_seconds):
            self.claims.release(self.conn, claim.segment.id, claim.epoch)
        self.on_claimed(self.board.number)

    def _run(self) -> None:
        seconds = 0.0
        while not self._stop.wait(seconds):
            try:
                seconds = self.beat()
                self._failures = 0
            except psycopg.Error as error:
                if not self._may_go_on(error):
                    return
                seconds = self._beat_seconds
            except BaseException as error:  # noqa: BLE001 - raised by the thread that runs it all
                self.board.fail(error)
                return

    def _may_go_on(self, error: psycopg.Error) -> bool:
        """A deadlock or a time limit may pass; claims outlast a few beats."""
        self._failures += 1
        if self.conn.closed or self._failures >= FAILURES:
            self.board.fail(error)
            return False
        log.warning("processor=%s beat failed: %s", self.claims.key.processor, error)
        return True
