from __future__ import annotations

from dataclasses import replace

import pytest

from milepost import Position
from milepost.cli.doctor import as_document, fact_lines, holder_lines
from milepost.log import Horizon
from milepost.log.diagnosis import Contents, Diagnosis, Holder, Server

SERVER = Server("18.4", "shop", "me", is_standby=False, is_notifying=True, sees_all_sessions=True)
HELD = Horizon(Position(0, 42), is_held=True)
CONTENTS = Contents("append", 43, True, Position(0, 43), 2.0)
HOLDER = Holder(7, None, "app", "me", "shop", "idle in transaction", 34.0, "select 1", "end(7)")
PREPARED = replace(HOLDER, pid=None, prepared="gid", application=None, query=None, age_seconds=5.0)
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


def test_a_holder_of_unknown_age_is_no_problem_by_itself() -> None:
    hidden = replace(HOLDER, age_seconds=None, state=None)
    diagnosis = replace(HEALTHY, horizon=HELD, holders=(hidden,))
    assert (diagnosis.held_seconds, areas(diagnosis, 0)) == (None, [])
    assert ("horizon", "0:42, held by 1 transaction") in list(fact_lines(diagnosis))


@pytest.mark.parametrize(
    ("migration", "remedy"),
    [
        (None, "milepost migrate --schema other"),
        (1, "milepost migrate --schema other"),
        (3, "pip install --upgrade milepost"),
    ],
)
def test_a_schema_that_does_not_fit_names_the_remedy(migration: int | None, remedy: str) -> None:
    (problem,) = Diagnosis("other", migration, 2, SERVER).problems(10)
    assert (problem.area, problem.remedy) == ("schema", remedy)


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
        "prepared 'gid'",
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
