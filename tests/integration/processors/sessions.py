"""The server's view of a processor's sessions: how many, what they wait for, and their end."""

from __future__ import annotations

from milepost.db import Connection
from tests.waiting import wait_until

_COUNT = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'milepost ' || %s
  and (%s::text is null or wait_event_type = %s)
"""
_TERMINATE = """
select pg_terminate_backend(pid) from (
  select pid from pg_stat_activity
  where datname = current_database() and application_name = 'milepost ' || %s
  order by random() limit %s
) as chosen
"""
_TERMINATE_WORKING = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name = 'milepost ' || %s
  and state = 'idle in transaction'
"""


def count(conn: Connection, processor: str, waiting_for: str | None = None) -> int:
    row = conn.execute(_COUNT, [processor, waiting_for, waiting_for]).fetchone()
    assert row is not None
    return int(row[0])


def wait_until_one_waits_for_a_lock(conn: Connection, processor: str) -> None:
    wait_until(lambda: count(conn, processor, "Lock") == 1)


def terminate(conn: Connection, processor: str, most: int = 100) -> int:
    """End sessions of the processor, chosen at random; how many were ended."""
    return len(conn.execute(_TERMINATE, [processor, most]).fetchall())


def terminate_in_transaction(conn: Connection, processor: str) -> None:
    """End the session that waits for its handler in the middle of a batch."""
    wait_until(lambda: conn.execute(_TERMINATE_WORKING, [processor]).fetchall())
