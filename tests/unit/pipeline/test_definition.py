"""What a pipeline accepts when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import Append, Files, ToLog
from milepost.pipeline.definition import AVAILABLE_NOW, PipelineOptions
from milepost.runtime import Until


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "1 to 255"),
        ({"version": 0}, "at least 1"),
        ({"max_messages_per_batch": 0}, "at least 1"),
        ({"partitions": 0}, "partitions is 0"),
        ({"output_mode": "complete"}, "expected update or append"),
        ({"topics": "orders"}, "expected a list"),
        ({"topics": []}, r"topics is \[\]: expected a list of names, or None"),
        ({"types": ["Placed", ""]}, "types is .*: expected a list of names"),
        ({"sink": Append("t" * 60)}, "shorter"),
        ({"trigger": "now and then"}, "trigger is 'now and then': expected an interval"),
        ({"trigger": "10"}, "expected an interval"),
        ({"trigger": "1 month"}, "expected an interval"),
        ({"on_failure": "ignore"}, "on_failure is 'ignore': expected stop or skip"),
        ({"on_failure": "skip", "stateful": True}, "cannot be used with stateful=True"),
        ({"on_failure": "skip", "sink": Files("out")}, "cannot be used with Files"),
        ({"expect": {}}, "expected 1 to 62 conditions by name"),
        ({"expect": "total > 0"}, "expected 1 to 62 conditions by name"),
        ({"expect": {f"e{n}": "n > 0" for n in range(63)}}, "expected 1 to 62"),
        ({"expect": {"": "n > 0"}}, "1 to 255 characters"),
        ({"expect": {"positive": " "}}, "'positive' is ' ': expected a condition in SQL"),
        ({"expect": {"p": "n > 0"}, "on_violation": "warn"}, "expected one of fail, drop, set_as"),
        ({"expect": {"p": "n > 0"}, "sink": Files("out")}, "expect cannot be used with Files"),
        ({"on_violation": "drop"}, "nothing is expected: pass expect"),
        (
            {
                "expect": {"p": "n > 0"},
                "on_violation": "set_aside",
                "sink": Append("t" * 50),
            },
            "t__rejected__v1' .* shorter",
        ),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"name": "p", "sink": Append("t")}
    with pytest.raises(ValueError, match=words):
        PipelineOptions(**(given | options))


def test_what_keeps_state_outside_of_postgresql() -> None:
    assert not PipelineOptions("p", ToLog("t")).keeps_state
    assert PipelineOptions("p", ToLog("t"), stateful=True).keeps_state
    assert PipelineOptions("p", Files("out")).keeps_state


@pytest.mark.parametrize(
    ("until", "ends"), [("stopped", False), ("caught_up", True), ("drained", True)]
)
def test_it_ends_when_it_has_caught_up_if_the_run_ends_by_itself(until: Until, ends: bool) -> None:
    assert PipelineOptions("p", Append("t")).ends(until) is ends
    assert PipelineOptions("p", Append("t"), trigger=AVAILABLE_NOW).ends(until)


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [
        ("0 seconds", 0),
        ("100 milliseconds", 0.1),
        ("1 minute", 60),
        ("interval 1 hour 30 minutes", 5400),
        (AVAILABLE_NOW, 0),
    ],
)
def test_a_trigger_is_an_interval_as_spark_writes_it(trigger: str, seconds: float) -> None:
    assert PipelineOptions("p", Append("t"), trigger=trigger).trigger_seconds == seconds
