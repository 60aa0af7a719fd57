from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from milepost.queue.definition import Definition, WorkerOptions


def plain(job: Any) -> None: ...
def transactional(job: Any, tx: Any) -> None: ...
def configured(job: Any, *, retries: int = 3) -> None: ...
async def later(job: Any) -> None: ...


class Sender:
    async def __call__(self, job: Any, tx: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "is_async", "is_transactional"),
    [
        (plain, False, False),
        (transactional, False, True),
        (configured, False, False),
        (partial(transactional, tx=1), False, False),
        (later, True, False),
        (Sender(), True, True),
    ],
)
def test_how_a_handler_wants_to_be_called(
    handler: Any, is_async: bool, is_transactional: bool
) -> None:
    definition = Definition(WorkerOptions("emails"), handler)
    assert definition.is_async == is_async
    assert definition.is_transactional == is_transactional


@pytest.mark.parametrize("pattern", ["", "a*b", "**", "x" * 256])
def test_what_is_no_channel_and_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"channel|star"):
        WorkerOptions(pattern)


@pytest.mark.parametrize("options", [{"lock": float("nan")}, {"poll_seconds": 0}, {"batch": 0}])
def test_numbers_without_a_meaning_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        WorkerOptions("emails", **options)
