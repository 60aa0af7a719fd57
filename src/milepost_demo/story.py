"""What happens to the pipelines while the writers write: a driver is killed during a batch and
restarted, twice, and a rebuild swaps in a new version."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from threading import Event

from milepost import db
from milepost.db import Connection
from milepost.errors import MilepostError
from milepost.runtime import holds_within
from milepost_demo.background import in_background
from milepost_demo.pipelines import BY_CUSTOMER, BY_DAY, rebuild, started_driver
from milepost_demo.place import Place

BATCHES_BEFORE_A_KILL = 5  # of both pipelines together
CATCH_UP_SECONDS = 60.0


class NotCaughtUp(MilepostError):
    """The pipelines of the demo did not reach the end of the log in time."""


@dataclass(frozen=True, slots=True)
class Revenue:
    """The pipelines' tables compared with one SQL query over the log."""

    days: int
    customers: int
    wrong: int
    sum_of_log: int
    sum_of_days: int
    sum_of_customers: int
    version: int
    kills: int

    @property
    def is_faultless(self) -> bool:
        return self.days > 0 and self.customers > 0 and not self.wrong


class Story:
    """Runs until the rebuild is swapped in; then the last driver continues, to catch up."""

    def __init__(self, place: Place, tell: Callable[[str], None]) -> None:
        self._place, self._say = place, tell
        self._writers_ended = Event()
        self._kills = 0
        self.has_told = Event()
        self._telling = in_background(self._run, "story")

    def finish(self) -> Revenue:
        """After the writers have ended: wait until the pipelines reach the end, and compare."""
        self._writers_ended.set()
        return self._telling.result()

    def _run(self) -> Revenue:
        directory = Path(mkdtemp(prefix="milepost-demo-"))
        try:
            version = self._tell(directory)
        finally:
            self.has_told.set()
            shutil.rmtree(directory, ignore_errors=True)
        with self._place.mp.connect() as conn:
            compared = db.fetch_one(conn, self._place.mp.schema, "demo_revenue_check")
        facts = [*compared, version, self._kills]
        return Revenue(*facts)

    def _tell(self, directory: Path) -> int:
        self._say("Spark: starting the driver of two pipelines")
        self._kill_in_a_batch(directory)
        self._say("Spark: the driver was killed during a batch; restarting it")
        self._kill_in_a_batch(directory)
        self._say("Spark: killed again; restarting it")
        with started_driver(self._place, directory) as driver:
            driver.wait_for_batches(2)
            # Its output is not read any more; the buffer of the pipe is large enough for the rest.
            self._say("Spark: rebuilding revenue_by_day while the driver runs")
            version = rebuild(self._place, directory)
            self._say("Spark: the new version is swapped in")
            self.has_told.set()
            self._writers_ended.wait()
            self._wait_for_the_end()
        return version

    def _kill_in_a_batch(self, directory: Path) -> None:
        with started_driver(self._place, directory) as driver:
            driver.wait_for_batches(BATCHES_BEFORE_A_KILL)
            driver.kill()
            self._kills += 1

    def _wait_for_the_end(self) -> None:
        with self._place.mp.connect() as conn:
            if not holds_within(lambda: self._are_at_the_end(conn), CATCH_UP_SECONDS):
                raise NotCaughtUp(
                    f"the pipelines were not at the end of the log {CATCH_UP_SECONDS:g} s after "
                    "the writers"
                )

    def _are_at_the_end(self, conn: Connection) -> bool:
        caught_up = db.fetch_all(conn, self._place.mp.schema, "demo_caught_up")
        return {name for (name,) in caught_up} == {BY_DAY, BY_CUSTOMER}
