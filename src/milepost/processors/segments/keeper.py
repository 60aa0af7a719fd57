"""Keeps the claims of one instance: a thread of its own, which never handles a message, so that
neither a slow handler nor a saturated pool loses one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost.processors.segments.fair_share import plan
from milepost.runtime import Duty

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.segments.claims import Claim, Claims
    from milepost.processors.segments.dispatch import Dispatch
    from milepost.processors.segments.setbacks import Setbacks
    from milepost.processors.segments.work import SegmentWork
    from milepost.records import Position
    from milepost.runtime import Lease

FAILURES = 5
log = logging.getLogger("milepost.processors")


@dataclass(slots=True)
class Keeper:
    claims: Claims
    lease: Lease
    dispatch: Dispatch
    setbacks: Setbacks
    make_work: Callable[[Claim], SegmentWork]
    rate: Callable[[], float]
    on_claimed: Callable[[int], None]  # told how many there are now
    beat_seconds: float
    _leaving: Event = field(default_factory=Event, init=False)
    _failures: int = field(default=0, init=False)
    _is_limited: bool = field(default=False, init=False)
    _noted: dict[tuple[int, int], Position] = field(default_factory=dict, init=False)
    _duty: Duty = field(init=False)

    def __post_init__(self) -> None:
        name = f"{self.claims.key.processor}-claims"
        self._duty = Duty(name, self._step, self.dispatch.fail)

    def start(self) -> None:
        self._duty.start()

    def leave(self) -> None:
        """Claim nothing more. What is claimed is kept until it is given back."""
        self._leaving.set()

    def stop(self) -> None:
        self._duty.close()

    def beat(self, conn: Connection) -> float:
        """Extend the claims, give back and take; the seconds until the next beat."""
        sent_at = time.monotonic()
        # Looked at first: what is claimed or given back after the answer must not look lost.
        here, leaving = self.dispatch.epochs()
        self._limit(conn, self.setbacks.at_most(len(here) - len(leaving), sent_at))
        tended = self.claims.tend(conn, self.rate())
        self.dispatch.extend(dict(tended.epochs), sent_at + self.claims.claim_seconds)
        todo = plan(tended, here, leaving)
        self.dispatch.lose(todo.lost)
        self.dispatch.leave(todo.release)
        for id_, epoch in todo.stray.items():
            self.claims.release(conn, id_, epoch)
        if todo.claim and not self._leaving.is_set():
            self._claim(conn, todo.claim)
        self._note_handled(conn)
        return tended.seconds_to_next(self.beat_seconds)

    def _limit(self, conn: Connection, at_most: int | None) -> None:
        """At every beat while it holds: the row may have been removed meanwhile."""
        is_limited = at_most is not None
        if is_limited or self._is_limited:
            self.claims.limit(conn, at_most)
        self._is_limited = is_limited

    def _note_handled(self, conn: Connection) -> None:
        """Only what has moved: most processors, and idle ones, write nothing here."""
        handled = self.dispatch.handled()
        if moved := dict(handled.items() - self._noted.items()):
            self.claims.note_handled(conn, moved)
        self._noted = handled

    def _claim(self, conn: Connection, number: int) -> None:
        sent_at = time.monotonic()
        left = self.setbacks.left_to_others(sent_at)
        found = [(c, self.make_work(c)) for c in self.claims.claim(conn, number, left)]
        for claim in self.dispatch.add(found, sent_at + self.claims.claim_seconds):
            self.claims.release(conn, claim.segment.id, claim.epoch)
        self.on_claimed(self.dispatch.number)

    def _step(self) -> float | None:
        if self._duty.closing.is_set():
            return None
        try:
            with self.lease as conn:
                seconds = self.beat(conn)
        except psycopg.Error as error:
            # A deadlock or a time limit may pass; claims outlast a few beats.
            self._failures += 1
            if self.lease.is_lost() or self._failures >= FAILURES:
                raise
            log.warning("processor=%s beat failed: %s", self.claims.key.processor, error)
            return self.beat_seconds
        self._failures = 0
        return seconds
