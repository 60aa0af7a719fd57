"""Whoever names a message's transaction_id is refused; where it has happened, rebase repairs."""

from __future__ import annotations

import psycopg
import pytest

from milepost import Message, Milepost, append, db
from milepost.db import Connection
from milepost.errors import LogRestored

INSERT = "insert into milepost.messages (transaction_id, type, data) values (%s, 'Named', '{}')"
append_order = pytest.mark.parametrize("order", ["append"])
# As a log may be that was written to before this was refused.
FORMERLY = "alter table milepost.messages drop constraint messages_transaction_id_unnamed"


@pytest.mark.parametrize("transaction_id", [-5, 7, 2**40])
def test_a_named_transaction_id_is_refused(
    conn: Connection, mp: Milepost, transaction_id: int
) -> None:
    with pytest.raises(psycopg.Error, match="Leave transaction_id and position out") as caught:
        conn.execute(INSERT, [transaction_id])
    assert caught.value.sqlstate == "MP008"
    new = append(conn, Message("T", {}))
    assert [message.position for message in mp.read()] == new


def test_the_own_one_may_be_named(conn: Connection, mp: Milepost) -> None:
    """As tools do that copy all columns of what they insert."""
    with conn.transaction():
        own = conn.execute("select (milepost.append_floor()).transaction_id").fetchone()
        assert own is not None
        conn.execute(INSERT, [own[0]])
    assert [message.type for message in mp.read()] == ["Named"]


def test_replication_copies_what_another_log_said(conn: Connection) -> None:
    conn.execute("set session_replication_role = replica")
    conn.execute(INSERT, [2**40])
    assert conn.execute("select transaction_id from milepost.messages").fetchall() == [(2**40,)]


def test_a_message_can_be_corrected(conn: Connection, mp: Milepost) -> None:
    append(conn, Message("T", {"n": 1}))
    conn.execute("""update milepost.messages set data = '{"n": 2}'""")
    assert [message.data for message in mp.read()] == [{"n": 2}]


@append_order
@pytest.mark.parametrize("named", [[7], [-5], [9, 7, -5]])
def test_rebase_repairs_what_was_written_before_it_was_refused(
    conn: Connection, mp: Milepost, url: str, named: list[int]
) -> None:
    first = append(conn, Message("First", {}))
    conn.execute(FORMERLY)
    for transaction_id in named:
        conn.execute(INSERT, [transaction_id])
    if max(named) > 0:
        with pytest.raises(LogRestored, match="Run: milepost rebase"):
            list(mp.read())
        with db.connect(url) as other, pytest.raises(LogRestored, match="Run: milepost rebase"):
            append(other, Message("T", {}))
    assert (
        mp.rebase()
        == f"{len(named)} messages with a user-defined transaction_id are the newest now"
    )
    assert mp.rebase().startswith("nothing")
    with db.connect(url) as other:
        last = append(other, Message("Last", {}))
    found = [(message.type, message.position) for message in mp.read()]
    assert [kind for kind, _ in found] == ["First", *["Named"] * len(named), "Last"]
    assert found[0][1] == first[0]
    assert found[-1][1] == last[0]
    # None of them lies where a reader may have passed.
    assert all(position > first[0] for _, position in found[1:])
