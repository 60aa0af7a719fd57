"""Tasks: functions to call later, through the queue.

A task's job is `{"task": NAME, "arguments": {...}}` in the task's channel. One worker for each
channel runs all of its tasks. The name is a stable string, not the place of the function, so that
jobs survive a change of the code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    overload,
)

from milepost.handlers import is_async
from milepost.queue.outcome import RetryPolicy
from milepost.queue.put import put
from milepost.queue.results import Handle, Results
from milepost.queue.tasks.arguments import Arguments
from milepost.records import Job

if TYPE_CHECKING:
    from typing import Unpack

    from milepost.db import AsyncConnection, Connection
    from milepost.records import OnDead, TakenJob

DEFAULT_CHANNEL = "tasks"
P = ParamSpec("P")
R = TypeVar("R")


class JobOptions(TypedDict, total=False):
    """The fields of `Job` that a task's jobs may have."""

    run_at: datetime | timedelta | None
    priority: int
    max_attempts: int
    unique_key: str | None
    keep_for: timedelta | None
    replace: bool
    unique_for: timedelta | None
    after: Sequence[int]
    on_dead: OnDead


class TaskOptions(JobOptions, total=False):
    """What `@mp.task(...)` takes: the options of its jobs are defaults. With `cron` (in a
    `timezone`) or `every`, it has a schedule of its name, and is put without arguments."""

    name: str
    channel: str
    aliases: Sequence[str]
    retry: RetryPolicy
    timeout: float
    cron: str
    timezone: str
    every: timedelta


@dataclass(frozen=True, slots=True)
class Task(Generic[P, R]):
    """Made by `@mp.task`. Calling it calls the function directly, as in a unit test."""

    name: str
    channel: str
    function: Callable[..., R]
    arguments: Arguments
    results: Results = field(repr=False)
    aliases: tuple[str, ...] = ()
    retry: RetryPolicy | None = None
    timeout: float | None = None
    settings: JobOptions = field(default_factory=JobOptions)

    def __post_init__(self) -> None:
        Job(self.channel, **self.settings)  # refuses options that a job does not have

    def __call__(self, /, *given: Any, **named: Any) -> R:
        return self.function(*given, **named)

    @property
    def is_async(self) -> bool:
        """Whether its function is `async def`."""
        return is_async(self.function)

    def options(self, /, **options: Unpack[JobOptions]) -> Task[P, R]:
        """The same task, whose jobs have these options: `send.options(priority=-1).put(...)`."""
        return replace(self, settings={**self.settings, **options})

    def job(self, /, *given: P.args, **named: P.kwargs) -> Job:
        """The job that calls it with these arguments, for `mp.put` and `mp.schedule`."""
        arguments = self.arguments.encoded(given, named)
        return Job(self.channel, {"task": self.name, "arguments": arguments}, **self.settings)

    @overload
    def put(self, conn: Connection, /, *given: P.args, **named: P.kwargs) -> Handle: ...
    @overload
    def put(
        self, conn: AsyncConnection, /, *given: P.args, **named: P.kwargs
    ) -> Awaitable[Handle]: ...
    def put(
        self, conn: Connection | AsyncConnection, /, *given: P.args, **named: P.kwargs
    ) -> Handle | Awaitable[Handle]:
        """Put a job that calls it with these arguments, in the transaction that is open on the
        connection. With an AsyncConnection, await it."""
        found = put(conn, self.job(*given, **named), schema=self.results.schema)
        if isinstance(found, list):
            return Handle(found[0], self.results)
        return self._handle_async(found)

    async def _handle_async(self, found: Awaitable[list[int]]) -> Handle:
        return Handle((await found)[0], self.results)

    @property
    def is_plain(self) -> bool:
        """Whether it is given nothing but its arguments."""
        wanted = self.arguments
        return not wanted.resources and wanted.tx is None and wanted.job is None

    def bound(self, resources: Mapping[str, Any]) -> Run:
        """To be called with the job, the transaction and the arguments."""
        function, wanted = self.function, self.arguments
        given = {name: resources[name] for name in wanted.resources}

        def run(job: TakenJob, tx: Any, arguments: dict[str, Any]) -> R:
            supplied = dict(given)
            if wanted.job is not None:
                supplied[wanted.job] = job
            if wanted.tx is not None:
                supplied[wanted.tx] = tx
            return function(**arguments, **supplied)

        return run


Run = Callable[["TakenJob", Any, dict[str, Any]], Any]


class TaskMaker:
    """`@mp.task`, and `@mp.task(...)` with options. For type checkers, what the worker supplies
    comes first (the job, then the transaction), or has the default SUPPLIED."""

    def __init__(
        self, register: Callable[[Callable[..., Any], TaskOptions], Any], options: TaskOptions
    ) -> None:
        self._register, self._options = register, options

    @overload
    def __call__(
        self, function: Callable[Concatenate[TakenJob, Connection, P], R], /
    ) -> Task[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[TakenJob, AsyncConnection, P], R], /
    ) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[TakenJob, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Connection, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[AsyncConnection, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, /, **options: Unpack[TaskOptions]) -> TaskMaker: ...
    def __call__(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]
    ) -> Any:
        if function is None:
            return TaskMaker(self._register, {**self._options, **options})
        if not callable(function):
            raise TypeError(
                f"@mp.task takes its options by name, as in @mp.task(name={function!r})."
            )
        return self._register(function, self._options)
