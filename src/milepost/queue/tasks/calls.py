"""How the jobs of a channel of tasks become calls: by the name in their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orjson import loads

from milepost.errors import TaskArgumentsChanged, UnknownTask
from milepost.handlers import Handler
from milepost.queue.handlers.call import Calls, Resolved
from milepost.queue.outcome import RetryPolicy
from milepost.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Collection

    from milepost.queue.tasks.task import Task
    from milepost.records import TakenJob


@dataclass(frozen=True, slots=True)
class TaskCalls(Calls):
    """The tasks of a channel, by their names and aliases."""

    channel: str
    tasks: dict[str, Task[..., Any]] = field(default_factory=dict)

    def add(self, task: Task[..., Any]) -> None:
        for other in self.tasks.values():
            if other.is_async != task.is_async:
                raise TypeError(_two_colours(self.channel, task, other))
        for name in (task.name, *task.aliases):
            if name in self.tasks:
                raise ValueError(
                    f"There is a task {name!r} in channel {self.channel!r} already. Give one of "
                    "them another name: @mp.task(name=...)."
                )
        self.tasks.update(dict.fromkeys((task.name, *task.aliases), task))

    @property
    def is_async(self) -> bool:
        return any(task.is_async for task in self.tasks.values())

    def resolved(self, offered: Collection[str]) -> ResolvedTasks:
        wanted = {
            name: task.arguments.task
            for task in self.tasks.values()
            for name in task.arguments.resources
        }
        missing = [f"{n} of the task {task!r}" for n, task in wanted.items() if n not in offered]
        return ResolvedTasks(self.channel, self.tasks, frozenset(wanted), tuple(missing))

    def __call__(self, job: TakenJob, tx: Any = None) -> Any:
        return self.resolved(()).bound({})(job, tx)


@dataclass(frozen=True, slots=True)
class ResolvedTasks(Resolved):
    channel: str
    tasks: Mapping[str, Task[..., Any]]
    resources: frozenset[str]
    missing: tuple[str, ...]

    @property
    def is_transactional(self) -> bool:
        return any(task.arguments.tx is not None for task in self.tasks.values())

    def takes_tx(self, job: TakenJob) -> bool:
        task = self._task_of(job)
        return task is not None and task.arguments.tx is not None

    def retry_of(self, job: TakenJob, policy: RetryPolicy) -> RetryPolicy:
        """What this process cannot call is set aside immediately: another attempt here would end in
        the same way."""
        task = self._task_of(job)
        own = policy if task is None or task.retry is None else task.retry
        others = {BaseException: own} if isinstance(own, Retry) else own
        return {UnknownTask: None, TaskArgumentsChanged: None, **others}

    @property
    def timeouts(self) -> tuple[float, ...]:
        return tuple(task.timeout for task in self.tasks.values() if task.timeout is not None)

    def timeout_of(self, job: TakenJob, seconds: float | None) -> float | None:
        task = self._task_of(job)
        return seconds if task is None or task.timeout is None else task.timeout

    def bound(self, resources: Mapping[str, Any]) -> Handler:
        """The shortest way is for plain tasks: it is gone for every job, and counts where they are
        short. All other jobs, also those that are set aside, go the long way."""
        plain = {
            name: (task.function, task.arguments.wrong_type)
            for name, task in self.tasks.items()
            if task.is_plain
        }
        call_other = self._bound_others(resources)

        def call(job: TakenJob, tx: Any = None) -> Any:
            try:
                content = loads(job.raw)
                function, wrong_type = plain[content["task"]]
                arguments = content["arguments"]
            except (KeyError, TypeError, ValueError):
                function = None
            if function is None:
                return call_other(job, tx)
            if wrong_type(arguments) is not None:
                self._refuse_misfit(job, arguments)
            try:
                return function(**arguments)
            except TypeError as error:
                self._refuse_misfit(job, arguments, error)
                raise

        return call

    def _bound_others(self, resources: Mapping[str, Any]) -> Handler:
        runs = {name: task.bound(resources) for name, task in self.tasks.items()}

        def call(job: TakenJob, tx: Any = None) -> Any:
            try:
                content = job.content
                run = runs[content["task"]]
                arguments = content.get("arguments") or {}
            except (KeyError, TypeError, ValueError):
                raise self._unknown(job) from None
            if self.tasks[content["task"]].arguments.wrong_type(arguments) is not None:
                self._refuse_misfit(job, arguments)
            try:
                return run(job, tx, arguments)
            except TypeError as error:
                self._refuse_misfit(job, arguments, error)
                raise

        return call

    def _task_of(self, job: TakenJob) -> Task[..., Any] | None:
        name = name_in(job)
        return None if name is None else self.tasks.get(name)

    def _unknown(self, job: TakenJob) -> UnknownTask:
        return UnknownTask(job.id, job.channel, name_in(job), sorted(self.tasks))

    def _refuse_misfit(
        self, job: TakenJob, arguments: object, error: TypeError | None = None
    ) -> None:
        """A TypeError of the call itself, and not one that the function has raised."""
        task = self._task_of(job)
        misfit = None if task is None else task.arguments.misfit(arguments)
        if task is not None and misfit is not None:
            signature = str(task.arguments.signature)
            raise TaskArgumentsChanged(job.id, task.name, signature, misfit) from error


def name_in(job: TakenJob) -> str | None:
    """The task that a job names, if it names one."""
    try:
        name = job.content["task"]
    except (KeyError, TypeError, ValueError):
        return None
    return name if isinstance(name, str) else None


def _two_colours(channel: str, task: Task[..., Any], other: Task[..., Any]) -> str:
    kinds = {True: "async def", False: "def"}
    return (
        f"The tasks {other.name!r} ({kinds[other.is_async]}) and {task.name!r} "
        f"({kinds[task.is_async]}) share the channel {channel!r}. The tasks of a channel are all "
        "def, which run in threads, or all async def, which run on one event loop. Give one of "
        "them another channel: @mp.task(channel=...)."
    )
