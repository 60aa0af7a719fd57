"""Look at everything, each part for itself: what cannot be seen is unknown, and stops nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from milepost import sql
from milepost.health import followers, jobs, storage
from milepost.health.check import Check, Limits
from milepost.health.describe import log_checks
from milepost.log.diagnosis import Unseen, diagnose
from milepost.log.seeing import see
from milepost.pipeline.admin import list_pipelines
from milepost.processors.admin import list_processors

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.health.jobs import Queue
    from milepost.log.diagnosis import Area, Diagnosis, Problem

# How far behind, not by how many: the oldest message is enough.
OLDEST = 1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. Where the schema does not fit this code, that is all there is to know."""

    diagnosis: Diagnosis
    checks: list[Check]
    queue: Queue | None = None

    @property
    def problems(self) -> list[Problem]:
        return [problem for check in self.checks for problem in check.problems]


def examine(
    conn: Connection, schema: str = sql.DEFAULT_SCHEMA, limits: Limits | None = None
) -> Report:
    """Raises only where nothing can be seen at all."""
    given = limits or Limits()
    diagnosis = diagnose(conn, schema, given.look_seconds)
    checks = log_checks(diagnosis, given)
    if not diagnosis.fits:
        return Report(diagnosis, checks)
    examination = Examination(conn, schema, diagnosis.server.username, given)
    return Report(diagnosis, [*checks, *examination.checks()], examination.queue)


@dataclass(slots=True)
class Examination:
    conn: Connection
    schema: str
    username: str
    limits: Limits
    queue: Queue | None = field(default=None, init=False)

    def checks(self) -> list[Check]:
        return [
            self._check("processors", self._processors),
            self._claims(),
            self._check("pipelines", self._pipelines),
            self._check("queue", self._queue),
            self._check("schedules", self._schedules),
            self._check("sequences", self._sequences),
            self._check("disk", self._disk),
        ]

    def _check(self, area: Area, look: Callable[[], Check]) -> Check:
        seen, unseen = self._see(area, look)
        return seen or Check(area, "not known", (unseen.problem(),) if unseen else ())

    def _see(self, area: Area, look: Callable[[], T]) -> tuple[T | None, Unseen | None]:
        seen, why = see(self.conn, self.schema, self.username, look, self.limits.look_seconds)
        return seen, None if why is None else Unseen(area, why.reason, why.remedy)

    def _processors(self) -> Check:
        found = list_processors(self.conn, self.schema, count_up_to=OLDEST)
        return followers.processors_check(found, self.limits)

    def _pipelines(self) -> Check:
        found = list_pipelines(self.conn, self.schema, count_up_to=OLDEST)
        return followers.pipelines_check(found, self.limits)

    def _claims(self) -> Check:
        """Looked at more than once, each time in a transaction of its own."""
        unseen: list[Unseen] = []

        def look() -> list[followers.UnfilledClaim]:
            seen, why = self._see(
                "claims", lambda: followers.unfilled_claims(self.conn, self.schema)
            )
            unseen.extend([] if why is None else [why])
            return seen or []

        found = followers.lasting_claims(look, self.limits.claim_seconds)
        if unseen:
            return Check("claims", "not known", (unseen[0].problem(),))
        return followers.claims_check(found, self.limits)

    def _queue(self) -> Check:
        self.queue = jobs.look_at_queue(self.conn, self.schema, self.limits)
        return jobs.queue_check(self.queue, self.limits)

    def _schedules(self) -> Check:
        found = jobs.look_at_schedules(self.conn, self.schema)
        return jobs.schedules_check(found, self.limits)

    def _sequences(self) -> Check:
        found = storage.look_at_sequences(self.conn, self.schema)
        return storage.sequences_check(found, self.username, self.limits)

    def _disk(self) -> Check:
        found = storage.look_at_tables(self.conn, self.schema)
        return storage.disk_check(found, self.schema, self.limits)
