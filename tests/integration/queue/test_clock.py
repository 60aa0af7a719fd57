"""Workers whose clocks are hours off, before and behind, do what the server's clock says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from milepost.db import Connection

PATIENCE_SECONDS = 120
# Every change of a job, with the server's time; nothing else in the database writes here.
WATCH = """
create table public.seen (
  at timestamptz default clock_timestamp(), content text, status text, run_at timestamptz,
  locked_until timestamptz, failures integer
);
create function see() returns trigger language plpgsql as $$
begin
  insert into public.seen (content, status, run_at, locked_until, failures) values (
    convert_from(new.content, 'UTF8'), new.status::text, new.run_at, new.locked_until, new.failures
  );
  return null;
end $$;
create trigger see after insert or update on milepost.jobs
for each row execute function see();
"""
EARLY = "select count(*) from seen where status = 'running' and at < run_at"
ODD_LOCKS = """
select count(*) from seen
where status = 'running' and locked_until not between at and at + interval '31 s'
"""
# By hours, as the clocks are: a busy machine may hold a job up for minutes.
ODD_TIMES = """
select count(*) from seen
where status in ('ready', 'scheduled')
  and run_at not between at - interval '1 hour' and at + interval '1 hour'
"""
LOST = "select count(*) from seen where failures > 0"
TAKEN = "select count(distinct content) from seen where status = 'running' and content like '\"%'"


def count(conn: Connection, query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_clients_whose_clocks_are_hours_off_keep_to_the_servers(url: str, conn: Connection) -> None:
    """One is before it and one is behind it, each with jobs of its own."""
    conn.execute(WATCH.encode())
    with ExitStack() as stack:
        clients = [stack.enter_context(skewed(url, hours)) for hours in ("-5", "5")]
        for client in clients:
            _, errors = client.communicate(timeout=PATIENCE_SECONDS)
            assert client.returncode == 0, errors
    assert count(conn, TAKEN) == 4
    assert [count(conn, query) for query in (EARLY, ODD_LOCKS, ODD_TIMES, LOST)] == [0, 0, 0, 0]


@contextmanager
def skewed(url: str, hours: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.integration.queue.skewed", hours]
    environment = os.environ | {"MILEPOST_URL": url}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as client:
        try:
            yield client
        finally:
            client.kill()
