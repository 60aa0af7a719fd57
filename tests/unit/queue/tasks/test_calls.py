"""Tasks without a database: what is put, how jobs find their function."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from milepost import SUPPLIED, Cron, Job, Milepost, Repeat, Retry, TakenJob
from milepost.db import Connection
from milepost.errors import InvalidArguments, TaskArgumentsChanged, UnknownTask
from milepost.queue.outcome import DEFAULT_RETRY, retry_for
from milepost.queue.schedules import Schedule, Scheduler
from milepost.queue.tasks.calls import TaskCalls
from milepost.queue.tasks.task import TaskOptions


@pytest.fixture
def mp() -> Milepost:
    return Milepost("postgresql://nowhere/nothing")


def taken(content: Any, channel: str = "tasks") -> TakenJob:
    raw = content if isinstance(content, bytes) else orjson.dumps(content)
    return TakenJob(
        7, channel, 1, 0, 25, 0, datetime(2030, 1, 1, tzinfo=UTC), raw, None, None, False
    )


def ignore(job: TakenJob) -> None: ...


def calls(mp: Milepost, channel: str = "tasks") -> TaskCalls:
    found = mp.workers[channel].definition.handler
    assert isinstance(found, TaskCalls)
    return found


def test_calling_a_task_calls_its_function(mp: Milepost) -> None:
    @mp.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert add(1) == 2
    assert add(1, b=5) == 6


def test_a_task_s_job_names_it_and_its_arguments(mp: Milepost) -> None:
    @mp.task(channel="emails", name="send_receipt", priority=3, keep_for=timedelta(hours=1))
    def send(order: int) -> None: ...

    content = {"task": "send_receipt", "arguments": {"order": 1}}
    assert send.job(order=1) == Job("emails", content, priority=3, keep_for=timedelta(hours=1))
    urgent = send.options(priority=-1, run_at=timedelta(seconds=5))
    assert urgent.job(1) == Job(
        "emails", content, priority=-1, keep_for=timedelta(hours=1), run_at=timedelta(seconds=5)
    )
    assert send.job(order=1).priority == 3


def test_wrong_arguments_are_refused_when_the_job_is_made(mp: Milepost) -> None:
    @mp.task
    def send(order: int) -> None: ...

    with pytest.raises(InvalidArguments, match="missing a required argument: 'order'"):
        send.job()  # type: ignore[call-arg]


def test_several_tasks_share_a_channel_and_its_worker(mp: Milepost) -> None:
    @mp.task
    def add(a: int, b: int) -> int:
        return a + b

    @mp.task
    def double(a: int) -> int:
        return 2 * a

    assert list(mp.workers) == ["tasks"]
    worker = mp.workers["tasks"]
    assert worker(taken({"task": "add", "arguments": {"a": 1, "b": 2}})) == 3
    assert worker(taken({"task": "double", "arguments": {"a": 4}})) == 8


def test_a_renamed_task_is_found_by_its_alias(mp: Milepost) -> None:
    @mp.task(name="new", aliases=["old"])
    def anything() -> str:
        return "done"

    assert mp.workers["tasks"](taken({"task": "old"})) == "done"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"task": "other", "arguments": {}}, "other"),
        ({"tasks": "send"}, None),
        ([1], None),
        ({"task": ["send"]}, None),
        (b"\xff", None),
    ],
)
def test_a_job_of_no_task_is_set_aside(mp: Milepost, content: Any, name: str | None) -> None:
    @mp.task
    def send() -> None: ...

    job = taken(content)
    with pytest.raises(UnknownTask, match="are: send") as raised:
        mp.workers["tasks"](job)
    assert raised.value.name == name
    policy = calls(mp).resolved(()).retry_of(job, DEFAULT_RETRY)
    assert retry_for(raised.value, policy) is None


def test_unknown_tasks_may_wait_for_the_code_that_knows_them(mp: Milepost) -> None:
    mp.task(name="send")(lambda: None)
    waiting = Retry(limit=10, first_seconds=5)
    policy = calls(mp).resolved(()).retry_of(taken({"task": "new"}), {UnknownTask: waiting})
    assert retry_for(UnknownTask(7, "tasks", "new", []), policy) is waiting


def test_a_job_whose_arguments_do_not_fit_any_more_is_set_aside(mp: Milepost) -> None:
    @mp.task
    def send(order: int) -> None: ...

    job = taken({"task": "send", "arguments": {"number": 1}})
    with pytest.raises(
        TaskArgumentsChanged, match="missing a required argument: 'order'"
    ) as raised:
        mp.workers["tasks"](job)
    policy = calls(mp).resolved(()).retry_of(job, DEFAULT_RETRY)
    assert retry_for(raised.value, policy) is None


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_job_whose_arguments_have_another_type_is_set_aside_before_the_call(
    mp: Milepost, is_plain: bool
) -> None:
    """As SQL or another release may put it."""
    seen: list[object] = []
    if is_plain:

        @mp.task(name="send")
        def send(orders: list[int]) -> None:
            seen.append(orders)
    else:

        @mp.task(name="send")
        def send_as(job: TakenJob, orders: list[int]) -> None:
            seen.append(orders)

    for wrong, reason in (([1, "2"], r"orders\[1\] must be int"), (7, "must be list, not int")):
        job = taken({"task": "send", "arguments": {"orders": wrong}})
        with pytest.raises(TaskArgumentsChanged, match=reason) as raised:
            mp.workers["tasks"](job)
        policy = calls(mp).resolved(()).retry_of(job, DEFAULT_RETRY)
        assert retry_for(raised.value, policy) is None
    for not_named in ("orders", [1]):
        with pytest.raises(TaskArgumentsChanged, match="not a JSON object"):
            mp.workers["tasks"](taken({"task": "send", "arguments": not_named}))
    assert seen == []


def test_a_type_error_of_the_function_is_its_own(mp: Milepost) -> None:
    @mp.task
    def send(order: int) -> None:
        raise TypeError("of its own")

    with pytest.raises(TypeError, match="of its own"):
        mp.workers["tasks"](taken({"task": "send", "arguments": {"order": 1}}))


def test_a_task_may_have_its_own_retries(mp: Milepost) -> None:
    own = Retry(limit=1)

    @mp.task(retry=own)
    def careful() -> None: ...

    @mp.task(retry={ValueError: None})
    def picky() -> None: ...

    @mp.task
    def plain() -> None: ...

    mp.task_channel("tasks", retry=Retry(limit=9))
    resolved = calls(mp).resolved(())

    def retry(name: str, error: Exception) -> Retry | None:
        policy = resolved.retry_of(
            taken({"task": name}), mp.workers["tasks"].definition.options.retry
        )
        return retry_for(error, policy)

    assert retry("careful", ValueError()) is own
    assert retry("picky", ValueError()) is None
    assert retry("picky", OSError()) is DEFAULT_RETRY
    assert retry("plain", ValueError()) == Retry(limit=9)


def test_the_worker_supplies_job_transaction_and_resources(mp: Milepost) -> None:
    @mp.task
    def send(job: TakenJob, tx: Connection, order: int, *, client: str = SUPPLIED) -> Any:
        return job.id, tx, order, client

    @mp.task
    def other() -> None: ...

    resolved = calls(mp).resolved({"client"})
    job = taken({"task": "send", "arguments": {"order": 1}})
    assert resolved.bound({"client": "c"})(job, "tx") == (7, "tx", 1, "c")
    assert resolved.takes_tx(job)
    assert not resolved.takes_tx(taken({"task": "other"}))
    assert resolved.is_transactional
    assert calls(mp).resolved(()).missing == ("client of the task 'send'",)


def test_async_tasks(mp: Milepost) -> None:
    @mp.task
    async def add(a: int) -> int:
        return a + 1

    assert mp.workers["tasks"].definition.is_async
    assert asyncio.run(mp.workers["tasks"](taken({"task": "add", "arguments": {"a": 1}}))) == 2


def test_the_tasks_of_a_channel_have_one_colour(mp: Milepost) -> None:
    @mp.task
    def first() -> None: ...

    with pytest.raises(TypeError, match=r"'first' \(def\) and 'second' \(async def\) share"):

        @mp.task
        async def second() -> None: ...


def test_a_name_is_given_once_in_a_channel(mp: Milepost) -> None:
    mp.task(name="send")(lambda: None)
    mp.task(name="send", channel="other")(lambda: None)
    with pytest.raises(ValueError, match="a task 'send' in channel 'tasks' already"):
        mp.task(name="x", aliases=["send"])(lambda: None)


def test_options_of_the_worker_are_set_before_or_after_the_tasks(mp: Milepost) -> None:
    mp.task_channel("early", concurrency=3)
    mp.task(channel="early", name="a")(lambda: None)
    mp.task(channel="late", name="b")(lambda: None)
    mp.task_channel("late", concurrency=4)
    assert mp.workers["early"].definition.options.concurrency == 3
    assert mp.workers["late"].definition.options.concurrency == 4
    assert mp.workers["late"](taken({"task": "b"})) is None
    with pytest.raises(ValueError, match="set already"):
        mp.task_channel("early", concurrency=5)


def test_a_channel_is_of_tasks_or_of_a_worker(mp: Milepost) -> None:
    mp.worker("emails")(ignore)
    with pytest.raises(ValueError, match="a channel of their own"):
        mp.task(channel="emails", name="a")(lambda: None)
    mp.task(name="a")(lambda: None)
    with pytest.raises(ValueError, match="a worker for 'tasks' already"):
        mp.worker("tasks")(ignore)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda mp: mp.task("emails"), "by name"),
        (lambda mp: mp.task(lambda: None), "give the task one"),
        (lambda mp: mp.task(channel="a.*", name="a")(lambda: None), "pattern"),
        (lambda mp: mp.task(size=3, name="a")(lambda: None), "size"),
        (lambda mp: mp.task_channel("a", handle="batch"), "one by one"),
    ],
)
def test_mistakes_are_refused_when_a_task_is_registered(
    mp: Milepost, make: Any, error: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        make(mp)


def test_a_task_may_have_a_schedule_of_its_own(mp: Milepost) -> None:
    @mp.task(cron="0 3 * * *", timezone="Europe/Berlin", channel="chores")
    def clean_up(days: int = 7) -> None: ...

    @mp.task(every=timedelta(minutes=5))
    def look() -> None: ...

    (scheduler,) = mp.members(["milepost.schedules"])
    assert isinstance(scheduler, Scheduler)
    assert list(scheduler.schedules) == [
        Schedule("clean_up", Cron("0 3 * * *", "Europe/Berlin"), clean_up.job()),
        Schedule("look", Repeat(timedelta(minutes=5)), look.job()),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cron": "0 3 * * *", "every": timedelta(1)}, "has cron and every"),
        ({"timezone": "UTC"}, "has a timezone: that is for cron"),
        ({"cron": "never"}, "is not a cron expression"),
    ],
)
def test_times_that_a_task_cannot_have_are_refused(
    mp: Milepost, options: TaskOptions, said: str
) -> None:
    def look() -> None: ...

    with pytest.raises(ValueError, match=said):
        mp.task(**options)(look)
    assert not mp.workers


def test_a_task_that_needs_arguments_has_no_schedule_of_its_own(mp: Milepost) -> None:
    def send(order: int) -> None: ...

    with pytest.raises(InvalidArguments, match="order"):
        mp.task(every=timedelta(1))(send)
    assert not mp.workers
