"""What is left on a connection that another part of the process takes over."""

from __future__ import annotations

from threading import Event

import pytest

from milepost.db import Connection, one
from milepost.runtime.connections import Connections, Lease

STATE = """
select
  current_setting('application_name'), current_setting('work_mem'),
  (select count(*) from pg_prepared_statements where from_sql)
"""


def use(lease: Lease, conn: Connection) -> None:
    conn.execute("set work_mem = '77MB'")
    conn.execute("prepare mine as select 1")


@pytest.mark.parametrize("is_handlers", [True, False])
def test_only_a_session_that_a_handler_had_is_reset(url: str, is_handlers: bool) -> None:
    """A reset takes two statements at each of hundreds of idle members' short uses."""
    connections = Connections(url, most=2)  # one of them is for own needs
    first, second, third = (connections.lease(name, Event()) for name in ("a", "b", "c"))
    with first as conn:
        pid = conn.info.backend_pid
        if is_handlers:
            first.reset_session(conn)  # as at the end of each use by a handler
        use(first, conn)
    for lease, name in ((second, "b"), (third, "c")):
        with lease as conn:
            assert conn.info.backend_pid == pid
            expected = ("4MB", 0) if is_handlers else ("77MB", 1)
            assert one(conn.execute(STATE.encode()).fetchone()) == (f"milepost {name}", *expected)
    third.close()
