from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.health.archive import ArchiveStatus, archive_check
from milepost.health.check import Limits
from milepost.health.followers import processors_check
from milepost.records import Position
from tests.unit.health.test_followers import RUNNING

ARCHIVER = replace(RUNNING, name="milepost.archive")
FINE = ArchiveStatus("/archive", Position(0, 7), None, ARCHIVER)


def test_an_archiver_that_keeps_up_is_fine() -> None:
    check = archive_check(FINE, Limits())
    assert (check.state, check.detail) == (
        "ok",
        "/archive, up to 0:7; archiver running, nothing waits",
    )
    assert archive_check(replace(FINE, waiting_seconds=7199.0), Limits()).state == "ok"
    assert archive_check(None, Limits()).detail == "no archive is configured"


@pytest.mark.parametrize(
    ("changes", "what", "remedy"),
    [
        ({"state": "failed", "last_error": "ArchiveGap: x\ny"}, "has failed: ArchiveGap: x", "fix"),
        ({"state": "retrying", "last_error": "disk full"}, "cannot write: disk full", "writable"),
        ({"state": "silent", "silent_seconds": 300.0}, "has not reported for 5 min", "archive run"),
        ({"state": "stopped"}, "is stopped and 3 h behind", "milepost archive run"),
        ({"state": "running"}, "is running and 3 h behind", "milepost processors show"),
        ({"state": "paused"}, "is paused and 3 h behind", "processors resume milepost.archive"),
    ],
)
def test_one_that_does_not_is_a_problem(changes: dict[str, object], what: str, remedy: str) -> None:
    archiver = replace(ARCHIVER, **changes)  # type: ignore[arg-type]
    late = replace(FINE, archiver=archiver, waiting_seconds=3 * 3600.0)
    (problem,) = archive_check(late, Limits()).problems
    assert what in problem.what
    assert remedy in problem.remedy
    assert archive_check(late, Limits(ignored=frozenset({"milepost.archive"}))).state == "ok"


def test_one_that_has_never_run_is_a_problem_when_messages_wait() -> None:
    never = replace(FINE, archiver=None)
    assert archive_check(never, Limits()).state == "ok"
    (problem,) = archive_check(replace(never, waiting_seconds=7200.0), Limits()).problems
    assert "has never run and 2 h behind" in problem.what
    assert problem.remedy.startswith("start one: milepost archive run")


def test_it_is_not_one_of_the_processors() -> None:
    check = processors_check([RUNNING, replace(ARCHIVER, state="failed")], Limits())
    assert (check.state, check.detail) == ("ok", "1 running, none behind")
