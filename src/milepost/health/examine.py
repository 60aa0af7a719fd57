"""Run all checks independently: one that cannot be run is unknown, and does not stop the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from milepost import db, sql
from milepost.health import archive, followers, jobs, storage
from milepost.health.advisory import AdvisoryLock, advisory_check
from milepost.health.check import Check, Limits
from milepost.health.describe import log_checks
from milepost.health.storage import SequenceStatus, TableStatus
from milepost.log.diagnose import Viewer, diagnose
from milepost.pipeline.admin import list_pipelines
from milepost.processors.admin import list_processors
from milepost.queue.schedules.admin import list_schedules

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.health.jobs import Queue
    from milepost.log.diagnosis import Area, Diagnosis, Problem


@dataclass(frozen=True, slots=True)
class Report:
    """The results. If the schema does not fit this code, there are no others."""

    diagnosis: Diagnosis
    checks: list[Check]
    queue: Queue | None = None

    @property
    def problems(self) -> list[Problem]:
        return [problem for check in self.checks for problem in check.problems]


def examine(
    conn: Connection, schema: str = sql.DEFAULT_SCHEMA, limits: Limits | None = None
) -> Report:
    """Raises only if nothing can be checked."""
    limits = limits or Limits()
    diagnosis = diagnose(conn, schema, limits.look_seconds)
    checks = log_checks(diagnosis, limits)
    if not diagnosis.fits:
        return Report(diagnosis, checks)
    username = diagnosis.server.username
    examination = Examination(conn, schema, username, limits.look_seconds, limits)
    return Report(diagnosis, [*checks, *examination.checks()], examination.queue)


@dataclass(slots=True)
class Examination(Viewer):
    limits: Limits
    queue: Queue | None = field(default=None, init=False)

    def checks(self) -> list[Check]:
        return [
            self._check("advisory", self._advisory),
            self._check("processors", self._processors),
            self._claims(),
            self._check("pipelines", self._pipelines),
            self._locked_jobs(self._check("queue", self._queue)),
            self._check("schedules", self._schedules),
            self._check("archive", self._archive),
            self._check("sequences", self._sequences),
            self._check("disk", self._disk),
        ]

    def _check(self, area: Area, look: Callable[[Connection, str], Check]) -> Check:
        return self.see(area, look) or self._unknown(area)

    def _unknown(self, area: Area) -> Check:
        first = next(problem for problem in self.unseen if problem.area == area)
        return Check(area, "unknown", (first,))

    def _advisory(self, conn: Connection, schema: str) -> Check:
        found = db.fetch_records(conn, schema, "health_advisory", AdvisoryLock)
        return advisory_check(found, self.limits)

    def _processors(self, conn: Connection, schema: str) -> Check:
        found = list_processors(conn, schema, max_counted=None)
        return followers.processors_check(found, self.limits)

    def _pipelines(self, conn: Connection, schema: str) -> Check:
        found = list_pipelines(conn, schema, max_counted=None)
        return followers.pipelines_check(found, self.limits)

    def _claims(self) -> Check:
        """Read more than once, each time in its own transaction."""
        found = followers.lasting_claims(
            lambda: self.see("claims", followers.unfilled_claims) or [], self.limits.claim_seconds
        )
        seconds = self.limits.claim_seconds
        silent = self.see("claims", partial(followers.silent_sessions, claim_seconds=seconds))
        if any(problem.area == "claims" for problem in self.unseen):
            return self._unknown("claims")
        return followers.claims_check(found, silent or [], self.limits)

    def _queue(self, conn: Connection, schema: str) -> Check:
        self.queue = jobs.look_at_queue(conn, schema, self.limits)
        return jobs.queue_check(self.queue, self.limits)

    def _locked_jobs(self, check: Check) -> Check:
        """Why jobs that are due are not taken, apart from the rest: it may need another grant."""
        names = jobs.late_channels(self.queue, self.limits) if self.queue is not None else []
        if not names:
            return check
        found = self.see("queue", partial(jobs.look_at_locks, channels=names))
        if found is None:
            return replace(check, problems=(*check.problems, self.unseen[-1]))
        return jobs.with_locks(check, found, self.limits)

    def _schedules(self, conn: Connection, schema: str) -> Check:
        return jobs.schedules_check(list_schedules(conn, schema), self.limits)

    def _archive(self, conn: Connection, schema: str) -> Check:
        return archive.archive_check(archive.look_at_archive(conn, schema), self.limits)

    def _sequences(self, conn: Connection, schema: str) -> Check:
        found = db.fetch_records(conn, schema, "health_sequences", SequenceStatus, schema=schema)
        return storage.sequences_check(found, self.username, self.limits)

    def _disk(self, conn: Connection, schema: str) -> Check:
        found = db.fetch_records(conn, schema, "health_tables", TableStatus)
        full = storage.full_disk(conn, schema)
        return storage.disk_check(found, schema, self.limits, full)
