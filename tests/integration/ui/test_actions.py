"""What holds for every action, whatever it does."""

from __future__ import annotations

from contextlib import closing
from itertools import product

import psycopg
import pytest

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.ui import dashboard
from milepost.ui.actions import ACTIONS
from tests import operated
from tests.integration.ui.operating import Operator
from tests.roles import roles_in

NAMES = [action.name for action in ACTIONS]
LOOKING = [
    "/processors",
    "/processors/parking",
    "/pipelines/revenue",
    "/queue",
    "/queue/limited",
    "/jobs",
    "/schedules",
    "/audit",
    "/dead-letters",
]
DESTRUCTIVE = [action.name for action in ACTIONS if action.confirm is not None]


@pytest.fixture
def busy(mp: Milepost, conn: Connection) -> None:
    operated.busy(mp, conn)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_a_form_without_its_token_is_refused(operator: Operator) -> None:
    operator.get("/")
    for name, token in product(NAMES, ("", "forged")):
        answer = operator.client.post(
            f"/actions/{name}", data={"name": "stuck", "csrf": token, "confirmed": "yes"}
        )
        assert (name, answer.status_code, operator.audit()) == (name, 403, [])


def test_a_read_only_dashboard_refuses_every_action(mp: Milepost, conn: Connection) -> None:
    with closing(dashboard(mp, read_only=True)) as made:
        operator = Operator(made, conn)
        fields = {"name": "stuck", "csrf": operator.token(), "confirmed": "yes"}
        for name in NAMES:
            answer = operator.client.post(f"/actions/{name}", data=fields)
            assert (name, answer.status_code, operator.audit()) == (name, 403, [])


def test_a_long_refusal_is_shown_too(operator: Operator) -> None:
    """It is in a cookie, of which browsers keep at most 4,096 bytes."""
    said = operator.refused("pause-processor", name='"é😀' * 2000)
    assert said.endswith("…")
    assert 2000 < len(operator.notice_cookie) <= 4096


def test_what_is_destructive_asks_first(operator: Operator) -> None:
    fields = {"name": "<b>", "ids": "7", "version": "1", "csrf": operator.token(), "back": "/queue"}
    for name in DESTRUCTIVE:
        answer = operator.client.post(f"/actions/{name}", data=fields)
        assert (name, answer.status_code) == (name, 200)
        assert 'name="confirmed" value="yes"' in answer.text, name
        assert "<b>" not in answer.text, name
        assert (name, operator.audit()) == (name, [])


def test_an_operator_may_do_what_forms_offer_with_the_privileges_of_operate(
    url: str, conn: Connection, busy: None
) -> None:
    with roles_in(url) as roles, closing(dashboard(Milepost(roles.make("operate")))) as made:
        operator = Operator(made, conn)
        operator.done("pause-processor", name="stuck")
        operator.done("skip-message", name="stuck")
        operator.done("reset-processor", name="cut", to="end")
        operator.done("split-segment", name="cut")
        operator.done("drop-dead-letters", processor="parking")
        operator.done("pause-pipeline", name="revenue")
        operator.done("retry-jobs", channel="limited")
        operator.done("limit-channel", name="limited", max_concurrency=9)
        operator.done("pause-schedule", name="nightly")


def test_a_session_is_ended_only_if_it_holds_the_horizon_and_the_role_may(
    mp: Milepost, url: str, conn: Connection
) -> None:
    with (
        roles_in(url) as roles,
        closing(dashboard(Milepost(roles.make("operate")))) as made,
        psycopg.connect(url) as holding,
    ):
        mp.append(holding, Message("Placed", {}))
        operator, pid = Operator(made, conn), holding.info.backend_pid
        assert "that holds the horizon back now" in operator.refused("end-session", pid=1)
        assert "grant pg_signal_backend to" in operator.refused("end-session", pid=pid)
        holding.execute("select 1")


def test_a_role_that_only_reads_sees_pages_and_changes_nothing(
    url: str, conn: Connection, busy: None
) -> None:
    with (
        roles_in(url) as roles,
        closing(dashboard(Milepost(roles.make("read", "metrics")))) as made,
    ):
        operator = Operator(made, conn)
        for path in LOOKING:
            operator.get(path)
        assert "may not see dead letters" in operator.get("/processors/parking")
        assert "may not see jobs" in operator.get("/jobs")
        assert "--to operate" in operator.refused("pause-processor", name="stuck")
