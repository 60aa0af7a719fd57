from __future__ import annotations

from dataclasses import replace

import pytest

from milepost import Position
from milepost.cli.commands.doctor import as_document, check_document, holder_lines, people
from milepost.health import Check, Limits
from milepost.health.describe import log_checks
from milepost.log import Horizon
from milepost.log.diagnose import without_ending
from milepost.log.diagnosis import Contents, Diagnosis, Holder, LockSession, Problem, Server

SERVER = Server("18.4", "shop", "me", is_standby=False, is_notifying=True, sees_all_sessions=True)
HELD = Horizon(Position(0, 42), is_held=True)
CONTENTS = Contents("append", 43, True, Position(0, 43), 2.0)
HOLDER = Holder(7, None, "app", "me", "shop", "idle in transaction", 34.0, "select 1", "end(7)")
PREPARED = replace(HOLDER, pid=None, prepared="gid", application=None, query=None, age_seconds=5.0)
IDLE = LockSession(71, "pg_dump", "me", "shop", "idle in transaction", 40.0, "copy", None, [])
WAITING = replace(
    IDLE, pid=80, application="app", state="active", waited_seconds=34.0, blocked_by=[71]
)
HEALTHY = Diagnosis("milepost", 2, 2, SERVER, CONTENTS, replace(HELD, is_held=False))


def areas(diagnosis: Diagnosis, warn_seconds: float = 10) -> list[str]:
    return [problem.area for problem in diagnosis.problems(warn_seconds)]


def test_a_healthy_log_has_no_problems() -> None:
    assert HEALTHY.problems(0) == []
    assert HEALTHY.held_seconds is None


@pytest.mark.parametrize("warn_seconds", [33, 34, 35])
def test_the_oldest_holder_decides_whether_it_is_too_long(warn_seconds: float) -> None:
    diagnosis = replace(HEALTHY, horizon=HELD, holders=(PREPARED, HOLDER))
    assert diagnosis.held_seconds == 34
    assert areas(diagnosis, warn_seconds) == (["horizon"] if warn_seconds <= 34 else [])


@pytest.mark.parametrize("state", [None, "disabled"])
def test_a_holder_of_unknown_age_is_unknown_and_names_the_grant(state: str | None) -> None:
    hidden = replace(HOLDER, age_seconds=None, state=state)
    diagnosis = replace(HEALTHY, horizon=HELD, holders=(hidden,))
    (problem,) = diagnosis.problems(3600)
    assert (problem.area, problem.is_unknown) == ("horizon", True)
    assert problem.remedy == "grant pg_read_all_stats to me"
    (check,) = [c for c in log_checks(diagnosis, Limits()) if c.name == "horizon"]
    assert (check.state, check.detail) == ("unknown", "0:42, held by 1 transaction")


def test_transactions_that_are_not_even_listed_are_unknown() -> None:
    diagnosis = replace(HEALTHY, hidden_transactions=2)
    (problem,) = diagnosis.problems(3600)
    assert (problem.area, problem.is_unknown, "2 transactions" in problem.what) == (
        "horizon", True, True,
    )  # fmt: skip


def test_a_lock_outside_of_any_transaction_is_a_problem_however_young() -> None:
    lasting = replace(HOLDER, age_seconds=None, state="idle")
    (problem,) = replace(HEALTHY, horizon=HELD, holders=(lasting,)).problems(3600)
    assert (problem.area, problem.is_unknown, "pid 7" in problem.what) == ("horizon", False, True)


def test_an_appender_that_commits_as_it_is_looked_at_holds_nothing() -> None:
    """Its lock was seen and its transaction was not any more; a later look knows better."""
    ending = replace(HOLDER, age_seconds=None, state="idle")
    lasting = replace(ending, pid=8)
    looks = iter([(HOLDER, ending, lasting), (lasting,), (ending, lasting), (lasting,)])
    assert without_ending(lambda: next(looks)) == (HOLDER, lasting)


def test_what_could_not_be_seen_is_unknown_in_its_area() -> None:
    denied = "Could not check: permission denied for table messages"
    unseen = (Problem("log", denied, "grant it", is_unknown=True),)
    diagnosis = replace(HEALTHY, contents=None, unseen=unseen)
    states = {check.name: check.state for check in log_checks(diagnosis, Limits())}
    assert (states["log"], states["horizon"]) == ("unknown", "ok")


@pytest.mark.parametrize(("warn_seconds", "expected"), [(34, ["locks"]), (35, [])])
def test_who_waits_for_a_lock_for_too_long_is_a_problem_of_who_blocks(
    warn_seconds: float, expected: list[str]
) -> None:
    diagnosis = replace(HEALTHY, locks=(WAITING, IDLE))
    assert areas(diagnosis, warn_seconds) == expected
    for problem in diagnosis.problems(warn_seconds):
        assert problem.remedy == "wait for them, or: select pg_terminate_backend(71)"


def test_who_blocks_is_listed_before_who_waits() -> None:
    """The appender that waits holds the horizon too, and is older: ending it would not help."""
    appender = replace(HOLDER, pid=80, age_seconds=3600.0)
    diagnosis = replace(HEALTHY, horizon=HELD, holders=(appender,), locks=(WAITING, IDLE))
    assert [lines[0] for lines in people(diagnosis)] == [
        "blocks others: pid 71, application pg_dump",
        "waits 34 s for pid 71: pid 80, application app",
    ]
    assert [lines[-1] for lines in people(diagnosis)] == [
        "end it: select pg_terminate_backend(71)",
        "query: copy",
    ]


def test_what_a_hidden_session_runs_is_not_shown() -> None:
    hidden = replace(HOLDER, age_seconds=None, state=None, query="<insufficient privilege>")
    assert not any("privilege" in line for line in holder_lines(hidden, "shop"))


def test_a_check_is_unknown_only_if_nothing_worse_is_known() -> None:
    unknown = Problem("queue", "w", "r", is_unknown=True)
    assert [
        Check("queue", "d", problems).state
        for problems in ((), (unknown,), (unknown, replace(unknown, is_unknown=False)))
    ] == ["ok", "unknown", "problem"]
    assert check_document(Check("queue", "d", (unknown,))) == {
        "name": "queue", "state": "unknown", "detail": "d", "hint": "r",
        "problems": [{"what": "w", "hint": "r", "is_unknown": True}],
    }  # fmt: skip
    assert check_document(Check("queue", "d"))["hint"] is None


@pytest.mark.parametrize(
    ("migration", "oldest_code", "remedy"),
    [
        (None, 0, "milepost migrate --schema other"),
        (1, 0, "milepost migrate --schema other"),
        (3, 3, "pip install --upgrade milepost"),
    ],
)
def test_a_schema_that_does_not_fit_names_the_remedy(
    migration: int | None, oldest_code: int, remedy: str
) -> None:
    found = Diagnosis("other", migration, 2, SERVER, oldest_code=oldest_code)
    (problem,) = found.problems(10)
    assert (problem.area, problem.remedy) == ("schema", remedy)


def test_the_schema_of_the_next_release_fits() -> None:
    assert areas(replace(HEALTHY, migration=HEALTHY.needed_migration + 1)) == []


def test_a_standby_is_a_problem_in_both_orders() -> None:
    standby = replace(HEALTHY, server=replace(SERVER, is_standby=True))
    assert areas(standby) == ["server"]
    assert areas(replace(standby, horizon=None, refusal="cannot be read")) == ["server"]


def test_a_restored_log_names_rebase() -> None:
    restored = replace(HEALTHY, schema="other", horizon=None, refusal="The log was restored")
    (problem,) = restored.problems(10)
    assert (problem.area, problem.remedy) == ("log", "milepost rebase --schema other")


def test_a_prepared_transaction_is_ended_where_it_was_prepared() -> None:
    assert list(holder_lines(PREPARED, "shop")) == [
        "holds the horizon: prepared 'gid'",
        "user me, database shop, idle in transaction for 5.0 s",
        "end it: end(7)",
    ]
    assert list(holder_lines(PREPARED, "other"))[-1] == "end it, in database shop: end(7)"
    # A session can be ended from any database.
    assert list(holder_lines(HOLDER, "other"))[-1] == "end it: end(7)"


def test_long_texts_of_a_holder_are_cut_but_never_the_command() -> None:
    long = replace(HOLDER, application="a" * 63, query="q" * 500, remedy="r" * 100)
    *texts, remedy = holder_lines(long, "shop")
    assert max(map(len, texts)) <= 78
    assert remedy == "end it: " + "r" * 100


def test_the_document_of_a_database_without_a_log_has_empty_facts() -> None:
    bare = Diagnosis("milepost", None, 2, SERVER)
    document = as_document(bare, bare.problems(10))
    assert document["ok"] is False
    assert document["order"] is document["horizon"] is document["newest"] is None
