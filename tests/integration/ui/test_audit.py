"""The record of what operators did."""

from __future__ import annotations

import psycopg
import pytest

from milepost import Milepost, db
from milepost.db import Connection
from milepost.errors import NotPermitted
from milepost.sql import Activity
from milepost.ui import audit
from tests.roles import roles_in


def test_the_newest_entry_is_listed_first_with_everything_that_was_recorded(
    mp: Milepost, conn: Connection
) -> None:
    first = audit.record(conn, mp.schema, "ann", "processors.pause", "billing", {"version": "2"})
    second = audit.record(conn, mp.schema, "bob", "jobs.drop", "7", {})

    newest, oldest = audit.list_audit(conn, mp.schema, 10)

    assert [newest.id, oldest.id] == [second, first]
    assert (oldest.who, oldest.action, oldest.subject) == ("ann", "processors.pause", "billing")
    assert oldest.arguments == {"version": "2"}
    assert oldest.at <= newest.at


def test_entries_are_read_page_by_page_and_by_subject(mp: Milepost, conn: Connection) -> None:
    ids = [audit.record(conn, mp.schema, "ann", "a", str(n % 2), {}) for n in range(5)]

    page = audit.list_audit(conn, mp.schema, 2, before=ids[3])
    of_one = audit.list_audit(conn, mp.schema, 10, subject="1")

    assert [entry.id for entry in page] == [ids[2], ids[1]]
    assert [entry.id for entry in of_one] == [ids[3], ids[1]]


def test_an_action_that_is_rolled_back_leaves_no_entry(mp: Milepost, conn: Connection) -> None:
    with conn.transaction(force_rollback=True):
        audit.record(conn, mp.schema, "ann", "processors.pause", "billing", {})

    assert audit.list_audit(conn, mp.schema, 10) == []


def test_text_that_postgres_cannot_store_is_recorded_without_it(
    mp: Milepost, conn: Connection
) -> None:
    audit.record(conn, mp.schema, "an\0n", "a", "\0", {"na\0me": "va\0lue"})

    (entry,) = audit.list_audit(conn, mp.schema, 10)

    assert (entry.who, entry.subject) == ("an\ufffdn", "\ufffd")
    assert entry.arguments == {"na\ufffdme": "va\ufffdlue"}


def test_a_role_that_operates_records_and_reads(url: str) -> None:
    with roles_in(url) as roles, db.connect(roles.make("operate")) as conn:
        audit.record(conn, "milepost", "ann", "a", "s", {})

        assert [entry.who for entry in audit.list_audit(conn, "milepost", 10)] == ["ann"]


@pytest.mark.parametrize("activity", ["read", "metrics", "work", "append"])
def test_no_other_role_records_or_reads(url: str, activity: Activity) -> None:
    with roles_in(url) as roles, db.connect(roles.make(activity)) as conn:
        with pytest.raises(NotPermitted):
            audit.record(conn, "milepost", "ann", "a", "s", {})
        with pytest.raises(NotPermitted):
            audit.list_audit(conn, "milepost", 10)


def test_the_time_of_an_entry_is_the_servers(url: str) -> None:
    statement = (
        "insert into milepost.audit (at, who, action, subject, arguments) "
        "values ('2000-01-01', 'ann', 'a', 's', '{}')"
    )
    with (
        roles_in(url) as roles,
        db.connect(roles.make("operate")) as conn,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        conn.execute(statement)
