from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from milepost.health.check import Limits
from milepost.health.followers import (
    UnfilledClaim,
    claims_check,
    lasting_claims,
    pipelines_check,
    processors_check,
)
from milepost.pipeline.admin import PipelineStatus
from milepost.processors.admin import ProcessorStatus

NOW = datetime(2026, 1, 31, tzinfo=UTC)
RUNNING = ProcessorStatus(
    name="billing", version=1, transaction_id=0, position=7, lag_messages=0, is_lag_exact=True,
    lag_seconds=0.0, state="running", owner="host:1", rate=1.0, handled=7, last_error=None,
    last_error_at=None, updated_at=NOW, dead_letters=0, mode=None, segments=None, parked_keys=0,
    is_replaying=False, silent_seconds=1.0,
)  # fmt: skip
PIPELINE = PipelineStatus(
    name="revenue", version=1, code_version=1, is_active=True, sink="upsert t", target="public.t",
    transaction_id=0, position=7, lag_messages=0, is_lag_exact=True, lag_seconds=0.0,
    state="running", owner="host:1", batches=1, rows=1, batches_per_second=1.0,
    rows_per_second=1.0, phases_ms=None, last_error=None, last_error_at=None, built_at=NOW,
    updated_at=NOW, silent_seconds=1.0,
)  # fmt: skip
CLAIM = UnfilledClaim("billing", 1, 3, 2, None)


def test_those_that_run_and_keep_up_are_fine() -> None:
    check = processors_check([RUNNING], Limits())
    assert (check.state, check.detail) == ("ok", "1 running, none behind")
    assert processors_check([], Limits()).state == "ok"


def test_one_that_failed_is_named_with_its_error_and_a_command() -> None:
    failed = replace(RUNNING, state="failed", last_error="ValueError: a bad order\nwith details")
    check = processors_check([failed], Limits())
    (problem,) = check.problems
    assert problem.what == "Processor 'billing' has failed: ValueError: a bad order"
    assert problem.remedy.endswith("milepost processors skip billing")


def test_of_many_that_failed_the_first_are_told_one_by_one() -> None:
    failed = [replace(RUNNING, name=f"p{n:02}", state="failed") for n in range(14)]
    check = processors_check(failed, Limits())
    assert (check.state, check.detail) == ("problem", "14 failed, none behind")
    assert len(check.problems) == 6
    assert "9 more processors have failed: p05, p06, p07, p08, p09 and 4 more" in (
        check.problems[-1].what
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"lag_seconds": 299.0}, "ok"),
        ({"lag_seconds": 300.0}, "problem"),
        ({"lag_seconds": 300.0, "state": "paused"}, "ok"),
        ({"lag_seconds": 300.0, "state": "stopped"}, "problem"),
        ({"state": "stopped"}, "ok"),
        ({"state": "silent", "silent_seconds": 119.0}, "ok"),
        ({"state": "silent", "silent_seconds": 120.0}, "problem"),
    ],
)
def test_lag_and_silence_count_from_their_limits_on(
    change: dict[str, object], expected: str
) -> None:
    assert processors_check([replace(RUNNING, **change)], Limits()).state == expected  # type: ignore[arg-type]


def test_a_stopped_version_that_was_replaced_and_what_is_ignored_do_not_count() -> None:
    old = replace(RUNNING, state="stopped", lag_seconds=1e6)
    assert processors_check([old, replace(RUNNING, version=2)], Limits()).state == "ok"
    assert processors_check([old], Limits()).state == "problem"
    assert processors_check([old], Limits(ignored=frozenset({"billing"}))).state == "ok"


def test_pipelines_are_judged_alike_but_kept_versions_are_not() -> None:
    kept = replace(PIPELINE, state="kept", is_active=False, lag_seconds=1e6)
    late = replace(PIPELINE, version=2, lag_seconds=1e6, last_error="OSError: x")
    check = pipelines_check([kept, late], Limits())
    (problem,) = check.problems
    assert problem.what.startswith("Pipeline 'revenue' version 2 is running and 12 d behind")
    assert problem.remedy.endswith("milepost pipelines show revenue")


@pytest.mark.parametrize("state", ["failed", "silent"])
def test_a_rebuild_that_ended_names_the_rebuild(state: str) -> None:
    rebuild = replace(PIPELINE, state=state, is_active=False, built_at=None, silent_seconds=1e6)
    (problem,) = pipelines_check([rebuild], Limits()).problems
    assert "milepost pipelines rebuild revenue" in problem.remedy


def test_unclaimed_segments_are_told_for_each_processor() -> None:
    check = claims_check([CLAIM, replace(CLAIM, segment=5)], [], Limits())
    (problem,) = check.problems
    assert problem.what == (
        "Processor 'billing': no instance has claimed segments 3, 5, with 2 running instances"
    )
    assert "milepost processors segments billing" in problem.remedy
    assert claims_check([CLAIM], [], Limits(ignored=frozenset({"billing"}))).state == "ok"


def test_a_segment_that_changes_hands_is_not_unclaimed() -> None:
    """Given back a moment ago; at the next look somebody has it."""
    looks = iter([[CLAIM, replace(CLAIM, segment=5)], [CLAIM], []])
    assert lasting_claims(lambda: next(looks), 60) == []


def test_a_claim_that_expired_long_ago_needs_no_second_look() -> None:
    expired = replace(CLAIM, expired_seconds=60.0)
    looks = iter([[expired]])
    assert lasting_claims(lambda: next(looks), 10) == [expired]
