"""What the probes decide, from what was seen and from what the process knows."""

from __future__ import annotations

import pytest

from milepost.errors import CompetingPipeline
from milepost.observe.probes import (
    Failing,
    Look,
    MemberState,
    ProbeLimits,
    Standing,
    not_live,
    not_ready,
)

LIMITS = ProbeLimits(lag_seconds=300, answer_seconds=10)
KEY = ("processor", "billing", 1)
COMPETING = CompetingPipeline("billing", "here", "there", "further")


def look(lag_seconds: float = 0, *, is_paused: bool = False) -> Look:
    return Look(100.0, {KEY: Standing(lag_seconds, is_paused)})


def member(state: str | None = "running", failure: BaseException | None = None) -> MemberState:
    return MemberState("billing", KEY, state, failure)


def why(seen: Look, state: MemberState, now: float = 101.0) -> list[str]:
    return [each.why for each in not_ready(seen, now, [state], LIMITS)]


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (look(), member()),
        (look(300), member()),
        (look(0), member("starting")),
        (look(301), member("standby")),
        (look(301, is_paused=True), member("paused")),
        (look(301), member(failure=COMPETING)),
        (Look(100.0), MemberState("chores", None, None, None)),
    ],
)
def test_it_is_ready(seen: Look, state: MemberState) -> None:
    assert why(seen, state) == []


@pytest.mark.parametrize(
    ("seen", "state", "said"),
    [
        (look(301), member(), "it is 301 s behind (limit 300 s)"),
        (look(301), member("starting"), "it is 301 s behind (limit 300 s)"),
        (look(), member(None), "it is starting"),
        (look(), member("reconnecting"), "it is reconnecting"),
        (Look(100.0), member(), "it has not registered yet"),
        (
            look(),
            member(failure=ValueError("a secret")),
            "it has failed with ValueError, and is restarted",
        ),
        (
            Look(100.0),
            MemberState("chores", None, None, ValueError()),
            "it has failed with ValueError, and is restarted",
        ),
    ],
)
def test_it_is_not_ready(seen: Look, state: MemberState, said: str) -> None:
    assert why(seen, state) == [said]


def test_without_the_database_nothing_is_said_of_members() -> None:
    lost = Look(100.0, failure="not reached: OperationalError")
    expected = [Failing("database", "not reached: OperationalError")]
    assert not_ready(lost, 101.0, [member(None)], LIMITS) == expected


def test_an_answer_that_is_old_does_not_count() -> None:
    assert why(look(), member(), now=110.0) == []
    assert why(look(), member(), now=131.0) == ["it has not answered for 31 s"]


def test_what_is_late_or_gone_is_not_alive() -> None:
    found = not_live({"milepost-watcher": 200.4}, ["billing"], 180.0)
    assert [(each.member, each.why) for each in found] == [
        ("billing", "its thread is gone"),
        ("milepost-watcher", "its loop has not turned for 200 s (limit 180 s)"),
    ]
    assert not_live({}, [], 180.0) == []
