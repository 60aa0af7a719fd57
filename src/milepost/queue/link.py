"""One thread's connection: opened when it is needed, and anew after it was lost."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, TypeVar

import psycopg

from milepost import db
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.db import Connection

RECONNECT = Retry(first_seconds=0.1, longest_seconds=10.0)
RECOVERED = "MP090"
T = TypeVar("T")
log = logging.getLogger("milepost.queue")


class LinkEnded(Exception):
    """The server could not be reached, and nobody wants to wait for it any more."""


@dataclass(slots=True)
class Link:
    """What runs through it may run again after a loss, so it must be harmless twice: a take whose
    answer was lost expires, everything else is fenced by the attempt."""

    url: str = field(repr=False)
    schema: str
    name: str
    is_pooled: bool
    ended: Event
    on_open: Callable[[Connection], None] = lambda _conn: None
    on_loss: Callable[[], None] = lambda: None
    opened: int = field(default=0, init=False)  # how often
    _conn: Connection | None = field(default=None, init=False)
    _losses: int = field(default=0, init=False)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do it, however often the server goes away; what is no loss is raised."""
        while True:
            try:
                answer = work(self.open())
            except psycopg.OperationalError as error:
                self._lost(error)
            else:
                self._losses = 0
                return answer

    def open(self) -> Connection:
        if self._conn is None or self._conn.closed:
            self._conn = connect(self.url, self.name, is_pooled=self.is_pooled)
            self.on_open(self._conn)
            self.opened += 1
        return self._conn

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def _lost(self, error: psycopg.OperationalError) -> None:
        """Lost, or in the way of others (a deadlock, a time limit): a new one begins afresh."""
        self.close()
        self.on_loss()
        self._losses += 1
        log_loss(self.name, self._losses, error)
        if self.ended.wait(RECONNECT.delay_seconds(self._losses, random.random())):  # noqa: S311
            raise LinkEnded from error


def log_recovered(notice: psycopg.errors.Diagnostic) -> None:
    """An attempt whose worker did not live to say that it failed; see recover_expired.sql."""
    if notice.sqlstate == RECOVERED:
        level = logging.ERROR if notice.message_detail == "dead" else logging.WARNING
        log.log(level, "%s", notice.message_primary)


def log_loss(name: str, losses: int, error: psycopg.OperationalError) -> None:
    log.warning("worker=%s try=%s lost the server: %s", name, losses, error)


def connect(url: str, name: str, *, is_pooled: bool) -> Connection:
    application_name = f"milepost {name}"[:63]
    if is_pooled:
        conn = db.connect_pooled(url, application_name=application_name)
    else:
        conn = db.connect(url, application_name=application_name)
        db.detect_dead_peers(conn)
    conn.add_notice_handler(log_recovered)
    return conn
