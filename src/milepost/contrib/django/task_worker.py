"""Runs the tasks that were enqueued: a worker for each queue of a backend."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from milepost.contrib.django.task_api import (
    TaskContext,
    TaskResult,
    TaskResultStatus,
    task_finished,
    task_started,
)
from milepost.contrib.django.task_results import Attempt, TaskFailed, TaskRow, in_settings
from milepost.errors import NotATask
from milepost.owner import owner_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from milepost.app import Milepost
    from milepost.contrib.django.tasks import MilepostBackend
    from milepost.records import TakenJob


def add_workers(mp: Milepost, backends: Iterable[MilepostBackend]) -> None:
    """A queue is the channel of that name, so that no two backends can share a queue."""
    taken: dict[str, str] = {}
    for backend in backends:
        for queue in sorted(backend.queues):
            if queue in taken:
                raise ImproperlyConfigured(
                    f"settings.TASKS: the queue {queue!r} is in QUEUES of {taken[queue]!r} and of "
                    f"{backend.alias!r}. A queue is the channel of that name, with one worker. "
                    "Rename one of them."
                )
            taken[queue] = backend.alias
            _add_worker(mp, backend, queue)


def _add_worker(mp: Milepost, backend: MilepostBackend, queue: str) -> None:
    own = backend.own
    runs = Runs(backend)
    # What this process cannot call is dead immediately: another attempt would end in the same way.
    mp.worker(queue, concurrency=own.concurrency, timeout=own.timeout, retry={NotATask: None})(
        runs.in_transaction if own.atomic else runs.alone
    )


class Runs:
    """Calls the tasks of a backend, and tells Django's signals."""

    def __init__(self, backend: MilepostBackend) -> None:
        self._backend, self._worker_id = backend, owner_name()

    def alone(self, job: TakenJob) -> dict[str, Any]:
        """In autocommit: each write of the task is a transaction of its own."""
        return self._run(job, is_atomic=False)

    def in_transaction(self, job: TakenJob, tx: Any) -> dict[str, Any]:  # noqa: ARG002 - bound
        """With the effects of the task, the job is completed."""
        return self._run(job, is_atomic=True)

    def _run(self, job: TakenJob, *, is_atomic: bool) -> dict[str, Any]:
        attempt = Attempt(self._worker_id, datetime.now(UTC))
        job.progress(attempt.told())
        result = started(job)
        self._tell(task_started, result)
        try:
            value = called(result)
        except Exception as error:
            if job.failures + 1 >= job.max_attempts:
                self._tell(task_finished, ended(result, TaskResultStatus.FAILED))
            path = f"{type(error).__module__}.{type(error).__qualname__}"
            text = "".join(format_exception(error))
            raise TaskFailed(path, attempt, text) from error
        finished = partial(
            self._tell, task_finished, ended(result, TaskResultStatus.SUCCESSFUL, value)
        )
        transaction.on_commit(finished, using=self._backend.own.using) if is_atomic else finished()
        return {"return_value": value, **attempt.told()}

    def _tell(self, signal: Any, result: TaskResult) -> None:
        signal.send(sender=type(self._backend), task_result=result)


def called(result: TaskResult) -> Any:
    given = [TaskContext(task_result=result)] if result.task.takes_context else []
    return result.task.call(*given, *result.args, **result.kwargs)


def started(job: TakenJob) -> TaskResult:
    row = TaskRow(
        status="running",
        failures=job.failures,
        created_at=in_settings(job.run_at),
        finished_at=None,
        content=job.raw,
        progress=job.raw_progress,
        result=None,
        last_error=None,
    )
    return row.task_result(job.id)


def ended(result: TaskResult, status: TaskResultStatus, value: Any = None) -> TaskResult:
    made = replace(result, status=status, finished_at=in_settings(datetime.now(UTC)))
    object.__setattr__(made, "_return_value", value)
    return made
