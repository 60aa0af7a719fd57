from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from milepost.queue.handlers.around import Hooks, covers


@dataclass
class SomeJob:
    channel: str


def ignore(job: Any) -> None: ...


def noting(notes: list[str], name: str) -> Any:
    def hook(job: Any, call: Any) -> Any:
        notes.append(f"{name} begins")
        result = call()
        notes.append(f"{name} ends")
        return result

    return hook


def test_the_first_hook_is_the_outermost_and_the_result_goes_through_all() -> None:
    notes: list[str] = []
    hooks = Hooks()
    hooks.add(noting(notes, "a"), "*")
    hooks.add(noting(notes, "b"), "*")

    def handle(job: Any, tx: str) -> str:
        notes.append("runs")
        return tx

    handler = hooks.put_around(handle, "emails", is_async=False)
    assert handler(SomeJob("emails"), "tx") == "tx"
    assert notes == ["a begins", "b begins", "runs", "b ends", "a ends"]


def test_without_hooks_the_handler_stays_as_it_is() -> None:
    hooks = Hooks()
    hooks.add(noting([], "a"), "other")
    assert hooks.put_around(noting, "emails", is_async=False) is noting


@pytest.mark.parametrize(
    ("pattern", "worker", "channel", "is_called"),
    [
        ("*", "emails", "emails", True),
        ("emails", "emails", "emails", True),
        ("tenant.*", "tenant.7", "tenant.7", True),
        ("tenant.7", "tenant.*", "tenant.7", True),
        ("tenant.7", "tenant.*", "tenant.8", False),
        ("tenant.7", "*", "emails", False),
        ("tenant.*", "emails", "emails", False),
    ],
)
def test_a_hook_is_for_the_jobs_of_its_channels(
    pattern: str, worker: str, channel: str, is_called: bool
) -> None:
    notes: list[str] = []
    hooks = Hooks()
    hooks.add(noting(notes, "a"), pattern)
    hooks.put_around(ignore, worker, is_async=False)(SomeJob(channel))
    assert bool(notes) == is_called


def test_a_list_of_jobs_has_the_hooks_of_all_its_channels_only() -> None:
    notes: list[str] = []
    hooks = Hooks()
    hooks.add(noting(notes, "all"), "*")
    hooks.add(noting(notes, "one"), "tenant.7")
    handler = hooks.put_around(ignore, "tenant.*", is_async=False, is_batch=True)
    handler([SomeJob("tenant.7")])
    assert notes == ["all begins", "all ends"]


def test_an_async_hook_awaits_the_call() -> None:
    notes: list[str] = []
    hooks = Hooks()

    async def hook(job: Any, call: Any) -> Any:
        result = await call()
        notes.append("after")
        return result

    async def handle(job: Any) -> int:
        await asyncio.sleep(0)
        notes.append("runs")
        return 1

    hooks.add(hook, "*")
    assert asyncio.run(hooks.put_around(handle, "emails", is_async=True)(SomeJob("emails"))) == 1
    assert notes == ["runs", "after"]


def test_a_hook_of_the_other_colour_alone_is_refused() -> None:
    hooks = Hooks()
    hooks.add(noting([], "a"), "*")
    with pytest.raises(TypeError, match=r"async def.*hook\(job, call\) is def"):
        hooks.of("emails", is_async=True)


def test_a_hook_without_its_two_parameters_is_refused() -> None:
    with pytest.raises(TypeError, match="a call to go on"):
        Hooks().add(ignore, "*")


def test_what_a_pattern_covers() -> None:
    assert covers("*", "a")
    assert covers("a*", "ab*")
    assert not covers("ab*", "a*")
    assert not covers("a", "ab")
