"""Several rebuilds: which, in which order, and what is said if one fails. None happens here."""

from __future__ import annotations

import pytest

from milepost import Append, Files, Milepost, Position, ToLog
from milepost.errors import NothingToRebuild, RebuildsStopped
from milepost.pipeline.in_order import rebuild_in_order, rebuild_order
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.rebuild import Rebuilt


def application() -> Milepost:
    """echo feeds b, whose sibling is files; a reads the same as echo."""
    mp = Milepost("postgresql://nowhere")
    mp.pipeline("a", topics=["orders"], sink=Append("a"))(lambda messages: messages)
    mp.pipeline("echo", topics=["orders"], sink=ToLog("echoes"))(lambda messages: messages)
    mp.pipeline("b", topics=["echoes"], sink=Append("b"))(lambda messages: messages)
    mp.pipeline("late", topics=["echoes"], sink=Append("c"), start_from="end")(lambda m: m)
    mp.pipeline("files", topics=["echoes"], sink=Files("x"))(lambda messages: messages)
    mp.pipeline("c", topics=["echoes"], sink=Append("d"))(lambda messages: messages)
    return mp


def done(pipeline: Pipeline) -> Rebuilt:
    return Rebuilt(pipeline.name, 2, 1, Position(0, 1), 1, 1.0, is_old_dropped=False)


def test_what_cannot_be_rebuilt_is_passed_over_with_its_reason() -> None:
    order = rebuild_order("orders", application().downstream("orders"))
    assert [each.name for each in order.pipelines] == ["a", "b", "c"]
    reasons = {each.name: each.reason for each in order.passed_over}
    assert "append its messages a second time" in reasons["echo"]
    assert "start_from is 'end'" in reasons["late"]
    assert "no view" in reasons["files"]
    assert [rebuilt.name for rebuilt in rebuild_in_order(order, done)] == ["a", "b", "c"]


def test_one_that_fails_ends_it_and_says_what_is_done_and_left() -> None:
    order = rebuild_order("orders", application().downstream("orders"))
    begun = []

    def fails(pipeline: Pipeline) -> Rebuilt:
        begun.append(pipeline.name)
        if pipeline.name == "b":
            raise ValueError("a bad order.")
        return done(pipeline)

    with pytest.raises(RebuildsStopped) as stopped:
        rebuild_in_order(order, fails)
    assert begun == ["a", "b"]
    assert (stopped.value.done, stopped.value.left) == (["a"], ["c"])
    assert str(stopped.value).startswith("The rebuild of 'b' failed: a bad order. Rebuilt before")
    assert isinstance(stopped.value.__cause__, ValueError)


def test_nothing_to_rebuild_is_an_error_that_says_why() -> None:
    mp = application()
    with pytest.raises(NothingToRebuild, match="files have no view"):
        rebuild_order("files", mp.downstream("files"))
    with pytest.raises(NothingToRebuild, match="there is none"):
        rebuild_order("nowhere", [])
