"""Mistakes of an application are refused where it registers a handler, in the user's words."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from milepost import Append, Milepost
from milepost.handlers import users_frames
from milepost.processors.definition import ProcessorOptions
from milepost.processors.deliver.attempts import Attempts
from milepost.retry import Retry
from milepost.runtime import Stop
from tests.unit.processors.deliver.test_attempts import MESSAGE

mp = Milepost("postgresql://nowhere/nothing")


def nothing() -> None: ...
def one(messages: Any) -> None: ...
def generator(messages: Any, tx: Any) -> Any:
    yield messages


async def asynchronous(messages: Any) -> None: ...


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no parameters": (lambda: mp.processor("p")(nothing), r"def handle\(messages, tx\)"),
    "no tx": (lambda: mp.processor("p")(one), r"def handle\(messages, tx\)"),
    "none for at least once": (
        lambda: mp.processor("p", delivery="at_least_once")(nothing), r"def handle\(messages\)"
    ),
    "generator": (lambda: mp.processor("p")(generator), "remove the yield"),
    "generator of a worker": (lambda: mp.worker("w")(generator), "remove the yield"),
    "no parentheses": (lambda: mp.processor(one), r"@mp.processor\('billing'\)"),  # type: ignore[arg-type]
    "misspelt": (
        lambda: mp.processor("p", topic="orders"),  # type: ignore[call-arg]
        "has no option topic=. Did you mean topics=",
    ),
    "unknown": (lambda: mp.processor("p", sink="t"), "has no option sink=. It has topics, "),  # type: ignore[call-arg]
    "misspelt for a worker": (lambda: mp.worker("w", timeot=1), "Did you mean timeout="),  # type: ignore[call-arg]
    "no number": (lambda: mp.processor("p", segments="4"), "segments is '4': expected a number"),  # type: ignore[arg-type]
    "no sink": (
        lambda: mp.pipeline("p", sink="revenue")(one), r"as in Append\('revenue'\)"  # type: ignore[arg-type]
    ),
    "misspelt for a pipeline": (
        lambda: mp.pipeline("p", sink=Append("t"), topic="a"),  # type: ignore[call-arg]
        "Did you mean topics=",
    ),
    "function of a pipeline": (
        lambda: mp.pipeline("p", sink=Append("t"))(nothing),  # type: ignore[arg-type]
        r"called with \(messages\)",
    ),
    "coroutine of a pipeline": (
        lambda: mp.pipeline("p", sink=Append("t"))(asynchronous), "is async def"  # type: ignore[arg-type]
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_refused_where_it_is_made(mistake: str) -> None:
    register, reason = REFUSED[mistake]
    with pytest.raises(TypeError, match=reason):
        register()
    assert len(mp.processors) + len(mp.workers) + len(mp.pipelines) == 0


def test_the_error_of_a_handler_shows_the_users_frames_only() -> None:
    def handler() -> None:
        raise ValueError("bad")

    attempts = Attempts(ProcessorOptions("p", retry=Retry(limit=0)), Stop(), lambda: False, print)
    failure = attempts.run(MESSAGE, handler)
    assert failure is not None
    frames = traceback.extract_tb(failure.error.__traceback__)
    assert [frame.name for frame in frames] == ["handler"]
    assert users_frames(None) is None
