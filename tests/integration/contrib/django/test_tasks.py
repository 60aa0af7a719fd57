"""Django's Tasks in Milepost's queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings
from django_tasks import TaskResultStatus, default_task_backend
from django_tasks.exceptions import TaskResultDoesNotExist
from django_tasks.signals import task_enqueued, task_finished, task_started

from milepost import Milepost, Retry
from milepost.errors import NotATask
from tests.integration.contrib.django.configured import BACKEND
from tests.integration.contrib.django.shop import tasks
from tests.integration.contrib.django.shop.models import Order


@pytest.fixture(autouse=True)
def seen() -> Iterator[list[Any]]:
    tasks.seen.clear()
    yield tasks.seen
    tasks.seen.clear()


def drain(mp: Milepost) -> None:
    mp.run(until="drained", fail_fast=True)


def test_a_task_is_run_and_has_its_result(mp: Milepost) -> None:
    result = tasks.add.enqueue(20, b=22)
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 0)
    drain(mp)
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 42)
    assert (result.attempts, result.errors) == (1, [])
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert result.is_finished
    assert (result.args, result.kwargs, result.task) == ([20], {"b": 22}, tasks.add)


def test_a_task_exists_exactly_if_the_transaction_commits(mp: Milepost, seen: list[Any]) -> None:
    with suppress(RuntimeError), transaction.atomic():
        gone = tasks.add.enqueue(1)
        assert tasks.add.get_result(gone.id).status == TaskResultStatus.READY
        raise RuntimeError
    with transaction.atomic():
        tasks.add.enqueue(2)
    drain(mp)
    assert seen == [(2, 1)]
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result(gone.id)


def test_coroutines_enqueue_and_ask_too(mp: Milepost) -> None:
    result = async_to_sync(tasks.add.aenqueue)(1)
    drain(mp)
    found = async_to_sync(tasks.add.aget_result)(result.id)
    assert found.return_value == 2


def test_a_higher_priority_runs_first(project: None, seen: list[Any]) -> None:
    with override_settings(TASKS=with_options(CONCURRENCY=1)), transaction.atomic():
        for priority in (0, -5, 9):
            tasks.send.using(priority=priority).enqueue(str(priority))
        tasks.send.enqueue("7")
    with override_settings(TASKS=with_options(CONCURRENCY=1)):
        drain(Milepost.from_django())
    assert seen == ["9", "7", "0", "-5"]


def with_options(**options: Any) -> dict[str, Any]:
    queues = ["default", "mail"]
    return {"default": {"BACKEND": BACKEND, "QUEUES": queues, "OPTIONS": options}}


def test_run_after_is_the_time_of_the_job(mp: Milepost) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    result = tasks.add.using(run_after=when).enqueue(1)
    with mp.connect() as conn:
        row = conn.execute("select run_at, channel, status::text from milepost.jobs").fetchone()
    assert row == (when, "default", "scheduled")
    found = tasks.add.get_result(result.id)
    assert (found.status, found.task.run_after) == (TaskResultStatus.READY, when)


def test_a_task_that_raises_has_failed_with_its_class_and_traceback(mp: Milepost) -> None:
    result = tasks.fail.enqueue("nowhere to be seen")
    drain(mp)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    (error,) = result.errors
    assert error.exception_class is LookupError
    assert "in fail" in error.traceback
    assert error.traceback.rstrip().endswith("LookupError: nowhere to be seen")
    assert result.started_at <= result.finished_at
    assert len(result.worker_ids) == 1
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_with_more_attempts_it_is_ready_again_in_between(
    mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else the next attempt could be due before the run has found that nothing is left.
    monkeypatch.setattr(Retry, "delay_seconds", lambda *_: 3600.0)
    result = tasks.third_time.enqueue()
    for attempt in (1, 2):
        drain(mp)
        result.refresh()
        assert (result.status, result.attempts) == (TaskResultStatus.READY, attempt)
        assert f"attempt {attempt}" in result.errors[-1].traceback
        with mp.connect() as conn:
            conn.execute("update milepost.jobs set run_at = clock_timestamp(), status = 'ready'")
    drain(mp)
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)
    assert (result.attempts, result.errors) == (3, [])


def test_an_async_task_is_run(mp: Milepost) -> None:
    result = tasks.add_async.enqueue(5)
    drain(mp)
    result.refresh()
    assert result.return_value == 5
    assert Order.objects.get().number == 5


@pytest.mark.parametrize("task", [tasks.book, tasks.book_async])
def test_the_effects_of_an_atomic_task_commit_with_its_end(mp: Milepost, task: Any) -> None:
    result = task.enqueue(1)
    drain(mp)
    result.refresh()
    assert result.return_value is True
    assert Order.objects.get().number == 1


def test_the_effects_of_an_atomic_task_that_fails_are_undone(mp: Milepost, seen: list[Any]) -> None:
    result = tasks.book.enqueue(1, fails=True)
    drain(mp)
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert (Order.objects.count(), seen) == (0, [])


def test_signals_are_sent(mp: Milepost) -> None:
    told: list[Any] = []

    def receive(sender: Any, task_result: Any, signal: Any, **rest: Any) -> None:
        told.append((signal, task_result.task.name, str(task_result.status)))

    signals = (task_enqueued, task_started, task_finished)
    for signal in signals:
        signal.connect(receive)
    try:
        tasks.add.enqueue(1)
        tasks.book.enqueue(1)
        drain(mp)
        tasks.fail.enqueue("x")
        drain(mp)
    finally:
        for signal in signals:
            signal.disconnect(receive)
    ends = {(name, status) for signal, name, status in told if signal is task_finished}
    assert ends == {("add", "SUCCESSFUL"), ("book", "SUCCESSFUL"), ("fail", "FAILED")}
    assert len(told) == 9


def test_a_task_that_is_gone_is_dead_with_words(mp: Milepost) -> None:
    result = tasks.add.enqueue(1)
    with mp.connect() as conn:
        conn.execute(
            "update milepost.jobs set content = replace("
            "convert_from(content, 'UTF8'), 'tasks.add', 'tasks.gone')::bytea"
        )
    drain(mp)
    with mp.connect() as conn:
        row = conn.execute("select status::text, last_error from milepost.jobs").fetchone()
    assert row is not None
    assert row[0] == "dead"
    assert "shop.tasks.gone' of Django, which cannot be imported" in row[1]
    with pytest.raises(NotATask):
        tasks.add.get_result(result.id)


def test_a_cancelled_task_has_failed(mp: Milepost) -> None:
    result = tasks.add.enqueue(1)
    with mp.connect() as conn:
        conn.execute("select milepost.cancel(array[%s])", [int(result.id)])
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class.__name__ == "JobCancelled"


def test_there_is_no_result_of_an_unknown_id(project: None) -> None:
    for id_ in ("4711", "x", "-1", "²"):
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(id_)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"OPTIONS": {"ATOMICS": True}}, "unknown key 'ATOMICS'"),
        ({"QUEUES": []}, "QUEUES'] is empty"),
    ],
)
def test_wrong_options_of_a_backend_are_refused(
    project: None, params: dict[str, Any], text: str
) -> None:
    with (
        override_settings(TASKS={"default": {"BACKEND": BACKEND, **params}}),
        pytest.raises(ImproperlyConfigured, match=text.replace("[", r"\[")),
    ):
        Milepost.from_django()


def test_two_backends_cannot_share_a_queue(project: None) -> None:
    both = {alias: {"BACKEND": BACKEND} for alias in ("default", "second")}
    with (
        override_settings(TASKS=both),
        pytest.raises(ImproperlyConfigured, match="'default' is in QUEUES of"),
    ):
        Milepost.from_django()
