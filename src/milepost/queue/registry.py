"""What an application registers for the queue: workers, tasks, schedules, hooks, resources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from milepost.encode import check_text
from milepost.errors import InvalidJob
from milepost.handlers import refuse_misspelt
from milepost.queue.definition import (
    Definition,
    Options,
    WorkerOptions,
    check_pattern,
    check_timeout,
)
from milepost.queue.encode import LONGEST_CHANNEL, check_channel
from milepost.queue.handlers.around import Hooks
from milepost.queue.handlers.resources import Resources
from milepost.queue.lookups import Lookups
from milepost.queue.outcome import check_retry
from milepost.queue.results import Results
from milepost.queue.schedules import Cron, Repeat, Schedule
from milepost.queue.tasks.arguments import Arguments
from milepost.queue.tasks.calls import TaskCalls
from milepost.queue.tasks.task import DEFAULT_CHANNEL, JobOptions, Task, TaskMaker
from milepost.queue.worker.worker import Worker

if TYPE_CHECKING:
    from datetime import timedelta

    from milepost.binding import Binding
    from milepost.db import UrlSource
    from milepost.handlers import Handler
    from milepost.queue.schedules.times import Times
    from milepost.queue.tasks.task import TaskOptions
    from milepost.records import Job
    from milepost.runtime import Runtime

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Registry:
    """`workers` by their channels; those of tasks are made with their first task."""

    runtime: Runtime
    session: Binding | None = None  # of handlers with a transaction that have no other
    workers: dict[str, Worker] = field(default_factory=dict)
    schedules: dict[str, Schedule] = field(default_factory=dict)
    _hooks: Hooks = field(default_factory=Hooks)
    _resources: Resources = field(default_factory=Resources)
    _task_options: dict[str, WorkerOptions] = field(default_factory=dict)
    results: Results = field(init=False)

    def __post_init__(self) -> None:
        self.results = Results(Lookups(self.runtime.source, self.runtime.schema))

    def rebind(self, source: UrlSource) -> None:
        """Results are looked up in another database from now on, also by tasks that exist."""
        self.results.lookups.source = source

    def worker(self, channel: str, options: Options) -> Callable[[Handler], Worker]:
        check_pattern(channel)
        refuse_misspelt(f"The worker of {channel!r}", options, Options)
        settled = WorkerOptions(channel, **options)  # refused here, not at the handler
        has_own = "session" in options

        def register(handler: Handler) -> Worker:
            self._refuse_taken(channel)
            made = self._made(settled, handler)
            if not has_own and made.definition.is_transactional:
                made = self._made(replace(settled, session=self.session), handler)
            self.workers[channel] = made
            return made

        return register

    @property
    def task(self) -> TaskMaker:
        return TaskMaker(self._add_task, {})

    def task_channel(self, channel: str, options: Options) -> None:
        """The options of the worker that runs the tasks of a channel."""
        if channel in self._task_options:
            raise ValueError(f"The options of the tasks in {channel!r} are set already.")
        check_task_channel(channel)
        if options.get("handle", "job") != "job":
            raise ValueError("Tasks are called one by one: handle='batch' is for @mp.worker.")
        settled = self._of_tasks(channel, options)
        self._task_options[channel] = settled
        if (worker := self.workers.get(channel)) is not None:
            self._refuse_other(channel, worker)
            self.workers[channel] = self._made(settled, worker.definition.handler)

    def schedule(self, name: str, when: Times, job: Job) -> None:
        if name in self.schedules:
            raise ValueError(f"There is a schedule {name!r} already.")
        self.schedules[name] = Schedule(name, when, job)

    def around(self, channel: str, hook: F) -> F:
        check_pattern(channel)
        return self._hooks.add(hook, channel)

    def resource(self, name: str | None, function: F) -> F:
        return self._resources.add(function, name)

    def _add_task(self, function: Callable[..., Any], options: TaskOptions) -> Task[..., Any]:
        task = self._task(function, options)
        times = times_of(task, options)
        calls = self._calls(task.channel)
        calls.add(task)
        if task.channel not in self.workers:
            settled = self._task_options.get(task.channel) or self._of_tasks(task.channel, {})
            self.workers[task.channel] = self._made(settled, calls)
        if times is not None:
            self.schedule(task.name, times, task.job())
        return task

    def _task(self, function: Callable[..., Any], options: TaskOptions) -> Task[..., Any]:
        name = options.get("name") or default_name(function)
        channel = options.get("channel", DEFAULT_CHANNEL)
        check_task_channel(channel)
        aliases = tuple(options.get("aliases", ()))
        for each in (name, *aliases):
            check_text("name", each, LONGEST_CHANNEL, InvalidJob)
        if "retry" in options:
            check_retry(options["retry"])
        check_timeout(options.get("timeout"))
        own = ("name", "channel", "aliases", "retry", "timeout", "cron", "timezone", "every")
        settings = JobOptions(**{k: v for k, v in options.items() if k not in own})  # type: ignore[typeddict-item]
        return Task(
            name,
            channel,
            function,
            Arguments.of(name, function),
            self.results,
            aliases,
            options.get("retry"),
            options.get("timeout"),
            settings,
        )

    def _calls(self, channel: str) -> TaskCalls:
        worker = self.workers.get(channel)
        if worker is None:
            return TaskCalls(channel)
        self._refuse_other(channel, worker)
        calls = worker.definition.handler
        assert isinstance(calls, TaskCalls)  # noqa: S101 - others are refused
        return calls

    def _of_tasks(self, channel: str, options: Options) -> WorkerOptions:
        settled = WorkerOptions(channel, **options)
        return settled if "session" in options else replace(settled, session=self.session)

    def _made(self, options: WorkerOptions, handler: Handler) -> Worker:
        return Worker(Definition(options, handler, self._hooks, self._resources), self.runtime)

    def _refuse_taken(self, channel: str) -> None:
        if channel in self.workers:
            raise ValueError(f"There is a worker for {channel!r} already.")

    def _refuse_other(self, channel: str, worker: Worker) -> None:
        if not isinstance(worker.definition.handler, TaskCalls):
            raise ValueError(  # noqa: TRY004 - the name is taken
                f"There is a worker for {channel!r} already, which is given all jobs of the "
                "channel. Tasks need a channel of their own: @mp.task(channel=...)."
            )


def check_task_channel(channel: str) -> None:
    check_channel(channel)
    if "*" in channel:
        raise ValueError(f"{channel!r} is a pattern: tasks are put into one channel. Name it.")


def times_of(task: Task[..., Any], options: TaskOptions) -> Times | None:
    """When a task that has a schedule of its own is put: by the clock, or at intervals."""
    cron, every = options.get("cron"), options.get("every")
    if cron is None and "timezone" in options:
        raise ValueError(f"The task {task.name!r} has a timezone: that is for cron.")
    if cron is None and every is None:
        return None
    if cron is not None and every is not None:
        raise ValueError(f"The task {task.name!r} has cron and every: give one of them.")
    task.arguments.encoded((), {})  # refuses a task that cannot be called without arguments
    if cron is not None:
        return Cron(cron, options.get("timezone", "UTC"))
    return Repeat(cast("timedelta", every))


def default_name(function: Callable[..., Any]) -> str:
    """Without its module: a function may move. A lambda has none, and all lambdas are alike."""
    name: str = getattr(function, "__name__", "<lambda>")
    if name == "<lambda>":
        raise TypeError(f"{function!r} has no name: give the task one, @mp.task(name=...).")
    return name
