"""A job of the queue as a TaskResult of Django.

The queue keeps the last error of a job, its result and how often it failed. When the last attempt
began and who ran it is told by that attempt: with its result, with its error, or as its progress.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from milepost import errors
from milepost.contrib.django.task_api import Task, TaskError, TaskResult, TaskResultStatus
from milepost.errors import NotATask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.queue.admin import Status

LONGEST_TRACEBACK = 9_000  # the queue keeps 10,000 characters of an error
UNKNOWN = "unknown"  # a worker that did not live to tell
_FAILED = re.compile(r"TaskFailed: (\S+) in an attempt of (\S+) since (\S+)\n(.*)", re.DOTALL)
_STATUSES = {
    "running": TaskResultStatus.RUNNING,
    "done": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED,
    "cancelled": TaskResultStatus.FAILED,
}


class TaskFailed(Exception):
    """What a task raised, as the queue keeps it."""

    def __init__(self, path: str, attempt: Attempt, traceback: str) -> None:
        since = attempt.started_at.isoformat()
        super().__init__(
            f"{path} in an attempt of {attempt.worker_id} since {since}\n"
            f"{traceback[-LONGEST_TRACEBACK:]}"
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who ran a task, and since when."""

    worker_id: str
    started_at: datetime

    def told(self) -> dict[str, str]:
        return {"worker_id": self.worker_id, "started_at": self.started_at.isoformat()}

    @classmethod
    def of(cls, told: Mapping[str, str]) -> Attempt:
        return cls(told["worker_id"], datetime.fromisoformat(told["started_at"]))


@dataclass(frozen=True, slots=True)
class TaskRow:
    """What is known of a task's job."""

    status: Status
    failures: int
    created_at: datetime
    finished_at: datetime | None
    content: bytes
    progress: bytes | None
    result: bytes | None
    last_error: str | None

    def task_result(self, id_: int) -> TaskResult:
        content = orjson.loads(self.content)
        attempt, error = self._attempt(), self._error()
        since = None if attempt is None else in_settings(attempt.started_at)
        made = TaskResult(
            task=task_of(id_, content),
            id=str(id_),
            status=_STATUSES.get(self.status, TaskResultStatus.READY),
            enqueued_at=self.created_at,
            started_at=since,
            last_attempted_at=since,
            finished_at=self.finished_at,
            args=content["arguments"]["args"],
            kwargs=content["arguments"]["kwargs"],
            backend=content["backend"],
            errors=[] if error is None else [error],
            worker_ids=self._worker_ids(attempt),
        )
        if self.status == "done" and self.result is not None:
            object.__setattr__(made, "_return_value", orjson.loads(self.result)["return_value"])
        return made

    def _attempt(self) -> Attempt | None:
        """The last one, if it is known."""
        if self.result is not None:
            return Attempt.of(orjson.loads(self.result))
        if self.status != "running" and (failed := _FAILED.match(self.last_error or "")):
            return Attempt(failed[2], datetime.fromisoformat(failed[3]))
        return None if self.progress is None else Attempt.of(orjson.loads(self.progress))

    def _worker_ids(self, attempt: Attempt | None) -> list[str]:
        """One for each attempt: their number is what Django calls the attempts."""
        count = self.failures + (self.status in ("running", "done"))
        last = UNKNOWN if attempt is None else attempt.worker_id
        return [*[UNKNOWN] * (count - 1), last] if count else []

    def _error(self) -> TaskError | None:
        if self.status == "done" or (self.last_error is None and self.status != "cancelled"):
            return None
        if failed := _FAILED.match(self.last_error or ""):
            return TaskError(exception_class_path=failed[1], traceback=failed[4])
        name = "JobCancelled" if self.status == "cancelled" else _class_in(self.last_error or "")
        return TaskError(
            exception_class_path=f"milepost.errors.{name}", traceback=self.last_error or "cancelled"
        )


def task_of(job: int, content: Any) -> Task:
    """The task that a job names. Jobs outlive code: there may be none any more."""
    path = content.get("task") if isinstance(content, dict) else None
    try:
        found = import_string(str(path))
    except ImportError as error:
        raise NotATask(job, path) from error
    if not isinstance(found, Task):
        raise NotATask(job, path)
    run_after = content["run_after"] and datetime.fromisoformat(content["run_after"])
    return found.using(
        priority=content["priority"],
        queue_name=content["queue"],
        backend=content["backend"],
        run_after=run_after,
    )


def in_settings(moment: datetime) -> datetime:
    """As Django gives times to its users: aware if USE_TZ."""
    return moment if settings.USE_TZ else timezone.make_naive(moment)


def _class_in(error: str) -> str:
    """Of an error of the worker: the task ran for too long, or its worker died."""
    name = error.partition(":")[0]
    return name if hasattr(errors, name) else "JobFailed"
