"""What a project's own tests use."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from milepost import Job, Message, Milepost, Retry
from milepost.contrib.django import append, put
from milepost.contrib.django.testing import appended, empty
from milepost.errors import HandlerFailed


def test_appended_sees_the_open_transaction(project: None) -> None:
    given = [Message("a", {"n": 1}, key="k", topic="t", metadata={"m": 1}), Message("b", None)]
    with transaction.atomic():
        append(*given)
        assert appended() == given
        transaction.set_rollback(True)
    assert appended() == []


def test_after_empty_everything_starts_again(mp: Milepost) -> None:
    seen: list[Any] = []

    def handle(messages: Any, tx: Any) -> None:
        seen.extend(message.data for message in messages)
        if seen[-1] == "bad":
            raise RuntimeError("as wanted")

    mp.processor("p", segments=2, on_failure="park", retry=Retry(limit=0))(handle)
    mp.worker("w")(lambda job: seen.append(job.content))
    for _ in range(2):
        with transaction.atomic():
            append(Message("x", "good", key="a"), Message("x", "bad", key="b"))
            put(Job("w", "job"), Job("w", "later", max_attempts=1))
        mp.run(until="drained", fail_fast=True)
        assert sorted(set(seen)) == ["bad", "good", "job", "later"]
        assert len(appended()) == 2
        seen.clear()
        empty()
        assert appended() == []
        mp.run(until="drained", fail_fast=True)
        assert seen == []
    assert mp.examine().problems == []


def test_a_failure_names_the_message(mp: Milepost) -> None:
    @mp.processor("p", retry=Retry(limit=0))
    def handle(messages: Any, tx: Any) -> None:
        raise RuntimeError("as wanted")

    with transaction.atomic():
        append(Message("x", 1))
    with pytest.raises(HandlerFailed, match="as wanted"):
        mp.run(until="drained", fail_fast=True)
