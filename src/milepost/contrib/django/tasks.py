"""A backend for Django's Tasks: `TASKS = {"default": {"BACKEND":
"milepost.contrib.django.tasks.MilepostBackend"}}`.

A task is a job of the queue, put in the transaction that is open when it is enqueued: it exists if
and only if that commits. A queue of Django is the channel of that name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils import timezone
from django.utils.module_loading import import_string

from milepost import sql
from milepost.contrib.django.settings import milepost_settings
from milepost.contrib.django.task_api import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from milepost.contrib.django.task_results import TaskRow
from milepost.contrib.django.write import put
from milepost.records import Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """`"OPTIONS": {"MAX_ATTEMPTS": 5, ...}` of a backend, with the names in upper case.

    `atomic`: a task runs in the transaction that also completes its job. `keep_for`: how long the
    results of successful tasks can be asked for. `concurrency` and `timeout` are of the worker of
    each queue, in each process."""

    using: str
    atomic: bool = False
    max_attempts: int = 1
    keep_for: timedelta = timedelta(days=1)
    concurrency: int = 10
    timeout: float | None = None

    @classmethod
    def of(cls, alias: str, given: Mapping[str, Any]) -> TaskOptions:
        known = [field.name.upper() for field in fields(cls)]
        for name in given:
            if name not in known:
                raise ImproperlyConfigured(
                    f"settings.TASKS[{alias!r}]['OPTIONS'] has the unknown key {name!r}. Known "
                    f"keys: {', '.join(known)}."
                )
        named = {name.lower(): value for name, value in given.items()}
        return cls(**{"using": milepost_settings().using, **named})


class MilepostBackend(BaseTaskBackend):
    """Tasks in Milepost's queue. `manage.py milepost run` runs them."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.own = TaskOptions.of(alias, self.options)
        if not self.queues:
            raise ImproperlyConfigured(
                f"settings.TASKS[{alias!r}]['QUEUES'] is empty. Name the queues: each is a channel "
                "with a worker of its own."
            )

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """In the transaction of the connection; outside of `atomic()`, in one of its own."""
        self.validate_task(task)
        made = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        (id_,) = put(self._job(made), using=self.own.using, outside_atomic=True)
        result = replace(made, id=str(id_))
        task_enqueued.send(sender=type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """As the transaction of the connection sees it."""
        if not result_id.isascii() or not result_id.isdigit():
            raise TaskResultDoesNotExist(result_id)
        query = sql.query("queue_task", milepost_settings().schema).decode()
        with connections[self.own.using].cursor() as cursor:
            cursor.execute(query, {"id": int(result_id)})
            row = cursor.fetchone()
        if row is None:
            raise TaskResultDoesNotExist(result_id)
        return TaskRow(*row).task_result(int(result_id))

    def _job(self, made: TaskResult) -> Job:
        task, run_at = made.task, aware(made.task.run_after)
        content = {
            "task": task.module_path,
            "arguments": {"args": made.args, "kwargs": made.kwargs},
            "backend": self.alias,
            "queue": task.queue_name,
            "priority": task.priority,
            "run_after": None if task.run_after is None else task.run_after.isoformat(),
        }
        return Job(
            task.queue_name,
            content,
            run_at=run_at,
            priority=-task.priority,  # a lower one is taken first
            max_attempts=self.own.max_attempts,
            keep_for=self.own.keep_for,
        )


def aware(moment: datetime | None) -> datetime | None:
    """A naive one is in the current time zone of Django, as everywhere if USE_TZ is off."""
    if moment is None or timezone.is_aware(moment):
        return moment
    return timezone.make_aware(moment)


def milepost_backends(using: str) -> list[MilepostBackend]:
    """Those of `settings.TASKS` that put their tasks into this database."""
    given: Mapping[str, Any] = getattr(settings, "TASKS", None) or {}
    made = [
        kind(alias, params)
        for alias, params in given.items()
        if isinstance(kind := import_string(params["BACKEND"]), type)
        and issubclass(kind, MilepostBackend)
    ]
    return [backend for backend in made if backend.own.using == using]
