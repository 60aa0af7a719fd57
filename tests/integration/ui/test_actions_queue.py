"""What forms do with jobs, channels and schedules."""

from __future__ import annotations

from datetime import timedelta

import pytest

from milepost import Job, Milepost, Rate, Repeat
from milepost.db import Connection
from milepost.queue import Policy, admin, policies, set_channel
from milepost.queue.schedules import Schedule, register
from tests import operated
from tests.integration.ui.operating import Operator

PAUSED = "select is_paused from milepost.schedules where name = 'nightly'"


@pytest.fixture(autouse=True)
def _jobs(mp: Milepost, conn: Connection) -> None:
    operated.jobs(mp, conn)
    register(conn, Schedule("nightly", Repeat(timedelta(days=1)), Job("reports")), mp.schema)


def ids(operator: Operator, **filters: str) -> list[int]:
    return admin.find_ids(operator.conn, "milepost", **filters)  # type: ignore[arg-type]  # of a test


def test_a_job_that_waits_is_cancelled(operator: Operator) -> None:
    first, *others = ids(operator, status="ready")
    assert operator.done("cancel-job", ids=first) == "1 job cancelled."
    assert ids(operator, status="ready") == others


def test_a_job_that_runs_is_asked_to_stop(operator: Operator) -> None:
    operator.conn.execute("select milepost.take(1, interval '1 hour', 'limited')")
    (running,) = ids(operator, status="running")
    assert operator.done("cancel-job", ids=running) == "1 job asked to stop."
    assert operator.value("select is_cancelled from milepost.jobs where id = %s", running) is True


def test_a_dead_job_is_retried(operator: Operator) -> None:
    first, second = ids(operator, status="dead")
    assert operator.done("retry-job", ids=first) == "1 job ready again."
    assert ids(operator, status="dead") == [second]


def test_a_job_that_is_not_dead_is_not_retried(operator: Operator) -> None:
    first, *_ = ids(operator, status="ready")
    assert "not dead any more" in operator.done("retry-job", ids=first)


def test_a_dead_job_is_dropped(operator: Operator) -> None:
    first, second = ids(operator, status="dead")
    assert operator.done("drop-job", ids=first) == "1 dead job dropped."
    assert ids(operator, status="dead") == [second]


def test_a_job_that_is_not_dead_is_not_dropped(operator: Operator) -> None:
    first, *_ = ids(operator, status="ready")
    assert operator.done("drop-job", ids=first) == "0 dead jobs dropped; 1 job not dead any more."
    assert first in ids(operator, status="ready")


def test_jobs_are_cancelled_by_channel_and_search(operator: Operator) -> None:
    (one,) = ids(operator, channel="limited", search=str(operated.BIG + 4))
    operator.done("cancel-jobs", channel="limited", status="", search=str(operated.BIG + 4))
    assert one not in ids(operator)
    assert len(ids(operator, channel="limited")) == 5

    operator.done("cancel-jobs", channel="emails", status="", search="")
    assert ids(operator, channel="emails") == []
    assert len(ids(operator, channel="limited")) == 5


def test_dead_jobs_are_retried_by_their_error(operator: Operator) -> None:
    assert operator.done("retry-jobs", channel="", status="dead", search="TimeoutError") == (
        "2 jobs ready again."
    )
    assert ids(operator, status="dead") == []


def test_dead_jobs_are_dropped_by_filter_and_others_stay(operator: Operator) -> None:
    operator.done("drop-jobs", channel="limited", status="", search="")
    assert len(ids(operator, channel="limited")) == 4


def test_a_filter_for_other_jobs_than_dead_ones_drops_nothing(operator: Operator) -> None:
    assert "expected dead" in operator.refused("drop-jobs", status="ready")
    assert "expected one of" in operator.refused("cancel-jobs", status="everything")
    assert len(ids(operator)) == 8


def test_a_channel_is_paused_and_resumed_and_keeps_its_limits(operator: Operator) -> None:
    operator.done("pause-channel", name="limited")
    assert policies(operator.conn)["limited"] == Policy(max_concurrency=2, paused=True)
    operator.done("resume-channel", name="limited")
    assert policies(operator.conn)["limited"] == Policy(max_concurrency=2)


def test_a_name_is_taken_as_it_is(operator: Operator) -> None:
    """Spaces are part of it: another channel may have the same name without them."""
    assert "There is no channel ' limited '" in operator.refused("pause-channel", name=" limited ")
    set_channel(operator.conn, " limited ", Policy())
    operator.done("pause-channel", name=" limited ")
    assert policies(operator.conn)[" limited "].paused
    assert not policies(operator.conn)["limited"].paused


def test_limits_are_edited_and_a_paused_channel_stays_paused(operator: Operator) -> None:
    operator.act("pause-channel", name="limited")
    operator.done(
        "limit-channel",
        name="limited",
        max_concurrency=5,
        rate=10,
        per_seconds=2.5,
        burst=3,
        max_size=1000,
        release_seconds="",
    )
    assert policies(operator.conn)["limited"] == Policy(
        max_concurrency=5, max_size=1000, paused=True, rate=Rate(10, 2.5, 3)
    )


def test_a_limit_of_a_family_is_for_all_its_channels(operator: Operator) -> None:
    operator.done("limit-channel", name="tenant.*", max_concurrency_total=7)
    assert policies(operator.conn)["tenant.*"] == Policy(max_concurrency_total=7)


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_concurrency", "0"), ("max_concurrency", "1.5"), ("rate", "x"), ("release_seconds", "-1"),
     ("release_seconds", "nan"), ("max_size", str(2**31)), ("max_concurrency_total", "3")],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(operator: Operator, field: str, value: str) -> None:
    operator.refused("limit-channel", name="limited", **{field: value})
    assert policies(operator.conn)["limited"] == Policy(max_concurrency=2)


def test_limits_are_removed(operator: Operator) -> None:
    operator.done("unset-channel", name="limited")
    assert policies(operator.conn) == {}


def test_a_schedule_is_paused_and_resumed(operator: Operator) -> None:
    operator.done("pause-schedule", name="nightly")
    assert operator.value(PAUSED) is True
    operator.done("resume-schedule", name="nightly")
    assert operator.value(PAUSED) is False


def test_a_schedule_puts_its_job_now(operator: Operator) -> None:
    before = operator.value("select next_at from milepost.schedules")
    operator.done("run-schedule", name="nightly")
    assert len(ids(operator, channel="reports")) == 1
    assert operator.value("select next_at from milepost.schedules") == before


def test_a_schedule_is_removed(operator: Operator) -> None:
    operator.done("remove-schedule", name="nightly")
    assert operator.value("select count(*) from milepost.schedules") == 0
    assert "nightly" in operator.refused("remove-schedule", name="nightly")


def test_a_server_that_ends_during_an_action_is_said(operator: Operator) -> None:
    operated.end_whoever_pauses(operator.conn)
    said = operator.refused("pause-channel", name="emails")
    assert said.startswith("The connection to the server was lost: terminating connection")
