"""Workers whose clocks are hours off, before and behind, do what the server's clock says."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from milepost.db import Connection

PATIENCE_SECONDS = 120
# Every change of a job, with the server's time; nothing else in the database writes here.
WATCH = """
create table seen (
  at timestamptz default clock_timestamp(), content text, status text, run_at timestamptz,
  locked_until timestamptz, failures integer
);
create function see() returns trigger language plpgsql as $$
begin
  insert into seen (content, status, run_at, locked_until, failures) values (
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
ODD_TIMES = """
select count(*) from seen
where status in ('ready', 'scheduled')
  and run_at not between at - interval '30 s' and at + interval '30 s'
"""
LOST = "select count(*) from seen where failures > 0"
TAKEN = "select count(distinct content) from seen where status = 'running' and content like '\"%'"


def count(conn: Connection, query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("hours", ["-5", "5"])
def test_a_client_whose_clock_is_hours_off_keeps_to_the_servers(
    url: str, conn: Connection, hours: str
) -> None:
    conn.execute(WATCH.encode())
    result = subprocess.run(
        [sys.executable, "-m", "tests.integration.queue.skewed", hours],
        env=os.environ | {"MILEPOST_URL": url},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert count(conn, TAKEN) == 2
    assert [count(conn, query) for query in (EARLY, ODD_LOCKS, ODD_TIMES, LOST)] == [0, 0, 0, 0]
