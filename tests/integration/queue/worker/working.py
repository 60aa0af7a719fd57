"""A worker in a thread of its own; what it raises reaches the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Thread
from typing import Any

from milepost import Job, Milepost
from milepost.db import Connection, one
from milepost.errors import JobFailed
from milepost.runtime import Member, Stop

PATIENCE_SECONDS = 120.0
LAST_ERROR = "select last_error from milepost.jobs where id = %s"


class Working:
    """A running worker. `error` is what ended it, if anything did."""

    def __init__(self, worker: Member) -> None:
        self.stop = Stop()
        self.error: BaseException | None = None
        self._worker = worker
        self._thread = Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def ends(self) -> BaseException | None:
        """Waits for it to end; what it ended with."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the worker did not end"
        return self.error

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._worker.run("stopped", self.stop)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.error = error


@contextmanager
def working(*workers: Member) -> Iterator[list[Working]]:
    """Workers that run until the end of the block and must not fail in it."""
    running = [Working(worker) for worker in workers]
    try:
        yield running
    finally:
        for each in running:
            each.stop.set()
        for each in running:
            if (error := each.ends()) is not None:
                raise error


def statuses(conn: Connection) -> list[tuple[Any, ...]]:
    """Of every job there is: its status, attempt and failures."""
    return conn.execute(
        "select status::text, attempt, failures from milepost.jobs order by id"
    ).fetchall()


def is_empty(conn: Connection) -> bool:
    return not statuses(conn)


def first_done(mp: Milepost, conn: Connection, channel: str) -> int:
    """The id of the first job that is done in time, of those that are put here one after the other.
    On a busy machine the time of a job may be up though it has nearly nothing to do."""
    while True:
        (id_,) = mp.put(conn, Job(channel, keep_for=timedelta(hours=1)))
        with suppress(JobFailed):
            mp.wait_for_result(id_, PATIENCE_SECONDS)
            return id_
        (error,) = one(conn.execute(LAST_ERROR, [id_]).fetchone())
        assert "ran for more than" in error


def expire_locks(conn: Connection) -> None:
    """As if every lock had run out, without waiting for it, after the worker has told that the jobs
    have begun. In one transaction: a heartbeat in between would extend what ran out."""
    with conn.transaction():
        conn.execute(
            "update milepost.jobs set locked_until = clock_timestamp() - interval '1 second', "
            "is_begun = true where status = 'running'"
        )
        conn.execute("select milepost.recover_expired()")
