"""What happens to the pipelines while the writers write: a driver is killed in mid-batch and
started again, its checkpoint directory is deleted, and a rebuild swaps in a new version."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from milepost import sql
from milepost.cli.demo.driver import rebuild, started_driver
from milepost.cli.demo.pipelines import BY_CUSTOMER, BY_DAY
from milepost.db import one
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.app import Milepost
    from milepost.cli.demo.place import Place

BATCHES_BEFORE_A_KILL = 5  # of both pipelines together
CATCH_UP_SECONDS = 60.0
LOOK_SECONDS = 0.2


class NotCaughtUp(MilepostError):
    """The pipelines of the demo did not get to the end of the log in time."""


@dataclass(frozen=True, slots=True)
class Revenue:
    """The pipelines' tables against one SQL query over the log."""

    days: int
    customers: int
    wrong: int
    sum_of_log: int
    sum_of_days: int
    sum_of_customers: int
    version: int
    kills: int
    directories_deleted: int

    @property
    def is_faultless(self) -> bool:
        return self.days > 0 and self.customers > 0 and not self.wrong


class Story(threading.Thread):
    """Runs until the rebuild is swapped in; then the last driver is left running to catch up."""

    def __init__(self, place: Place, tell: Callable[[str], None]) -> None:
        super().__init__(name="story", daemon=True)
        self._place, self._say = place, tell
        self._directory = Path(tempfile.mkdtemp(prefix="milepost-demo-"))
        self._writers_ended = threading.Event()
        self._error: BaseException | None = None
        self._version = self._kills = self._directories_deleted = 0
        self.has_told = threading.Event()

    def run(self) -> None:
        try:
            self._tell()
        except BaseException as error:  # noqa: BLE001  # raised again by finish()
            self._error = error
        finally:
            self.has_told.set()
            shutil.rmtree(self._directory, ignore_errors=True)

    def finish(self) -> Revenue:
        """Once the writers have ended: wait for the pipelines to reach the end, and compare."""
        self._writers_ended.set()
        self.join()
        if self._error is not None:
            raise self._error
        return Revenue(
            *_compared(self._place.mp), self._version, self._kills, self._directories_deleted
        )

    def _tell(self) -> None:
        self._say("Spark: starting the driver of two pipelines")
        self._kill_in_a_batch()
        self._say("Spark: the driver was killed in mid-batch; starting it again")
        self._kill_in_a_batch()
        self._say("Spark: killed again, its checkpoint directory deleted; starting it again")
        shutil.rmtree(self._directory)
        self._directory.mkdir()
        self._directories_deleted += 1
        with started_driver(self._place, self._directory) as driver:
            driver.wait_for_batches(2)
            # Its output is read no more; a pipe holds the few lines that are still to come.
            self._say("Spark: rebuilding revenue_by_day beside the running driver")
            self._version = rebuild(self._place, self._directory)
            self._say("Spark: the new version is swapped in")
            self.has_told.set()
            self._writers_ended.wait()
            self._wait_for_the_end()

    def _kill_in_a_batch(self) -> None:
        with started_driver(self._place, self._directory) as driver:
            driver.wait_for_batches(BATCHES_BEFORE_A_KILL)
            driver.kill()
            self._kills += 1

    def _wait_for_the_end(self) -> None:
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while time.monotonic() < deadline:
            if caught_up(self._place.mp) == {BY_DAY, BY_CUSTOMER}:
                return
            time.sleep(LOOK_SECONDS)
        raise NotCaughtUp(f"not at the end of the log {CATCH_UP_SECONDS:g} s after the writers")


def caught_up(mp: Milepost) -> set[str]:
    """The pipelines with nothing left to read."""
    with mp.connect() as conn:
        return {name for (name,) in conn.execute(sql.query("demo_caught_up", mp.schema))}


def _compared(mp: Milepost) -> tuple[int, int, int, int, int, int]:
    with mp.connect() as conn:
        row = one(conn.execute(sql.query("demo_revenue_check", mp.schema)).fetchone())
    days, customers, wrong, sum_of_log, sum_of_days, sum_of_customers = row
    return days, customers, wrong, sum_of_log, sum_of_days, sum_of_customers
