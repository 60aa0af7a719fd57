"""The plans of the queue's functions, at many waiting jobs (a million in `make soak`) in
10,000 channels, all of them with a policy; by the method of test_plans.py. Nothing reads a whole
table, nothing is sorted that an index holds in order, and what a take costs does not depend on how
many jobs wait."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from milepost import db
from milepost.db import Connection, one
from milepost.sql import LogOrder
from tests.server import TestServer

JOBS = int(os.environ.get("MILEPOST_PLAN_ROWS", "100000"))
CHANNELS = 10_000
FILL_CHANNELS = """
insert into milepost.channels (name, max_concurrency)
select 'channel' || n, 1000 from generate_series(1, %(channels)s) as n
"""
FILL_JOBS = """
insert into milepost.jobs (channel, content, run_at)
select 'channel' || 1 + n %% %(channels)s, '{}', clock_timestamp() - interval '1 hour'
from generate_series(1, %(jobs)s) as n
"""
FILL_OTHERS = """
insert into milepost.jobs (
  channel, content, run_at, status, locked_until, taken, attempt, kept_until
)
select 'channel' || 1 + n %% %(channels)s, '{}',
  clock_timestamp() + interval '1 day' + n * interval '1 second', status::milepost.job_status,
  case when status = 'running' then clock_timestamp() + interval '1 hour' end,
  case when status = 'running' then nextval('milepost.jobs_taken_seq') end, 1,
  case when status = 'done' then clock_timestamp() + interval '1 day' + n * interval '1 second' end
from generate_series(1, %(jobs)s / 100) as n,
  unnest(array['scheduled', 'running', 'dead', 'done']) as status
"""
HOURLY = """
insert into milepost.schedules (name, every, begun_at, next_at, channel, content)
values ('hourly', '1 hour', '2020-01-01', '2020-01-01', 'channel7', '')
"""
# For each hundredth job one that waits for it, the last thousand not yet told.
FILL_FOLLOWERS = """
with followers as (
  insert into milepost.jobs (channel, content, status)
  select 'channel' || 1 + n %% %(channels)s, '{}', 'waiting'
  from generate_series(1, %(jobs)s / 100) as n
  returning id
)
insert into milepost.job_dependencies (job_id, after_id, is_linked, on_dead)
select id, 1 + (id * 100) %% %(jobs)s, row_number() over () < %(jobs)s / 100 - 1000, 'wait'
from followers
"""
# Ids from 1 on wait; the running ones follow the large.
RUNNING = """
select array(select id from milepost.jobs where status = 'running' order by taken limit %s)
"""
STATEMENTS: dict[str, str] = {
    "take": "select * from milepost.take(500)",
    "take from the middle": "select * from milepost.take(500, after => 'channel5')",
    "take one": "select * from milepost.take(1)",
    "take of a prefix": "select * from milepost.take(10, pattern => 'channel77*')",
    "take of a name": "select * from milepost.take(10, pattern => 'channel77')",
    "remembered take": "select * from milepost.take_from(array['channel7', 'channel8'], 10, "
    "'30 s', array[0, 0]::smallint[], array['2020-01-01', '2020-01-01']::timestamptz[], "
    "array[5, 5], looks_before => true)",
    "look": "select milepost.next_due()",
    "hinted take": "select * from milepost.take_from(array['channel7', 'channel8'], 10, '30 s', "
    "array[0, 0]::smallint[], array['2020-01-01', '2020-01-01']::timestamptz[], array[5, 5])",
    "complete": "select milepost.complete(%(ids)s, %(attempts)s)",
    "complete with results": "select milepost.complete(%(ids)s, %(attempts)s, %(results)s)",
    "defer": "select milepost.defer(%(ids)s, %(attempts)s)",
    "fail": "select milepost.fail(%(ids)s, %(attempts)s)",
    "give back": "select milepost.give_back(%(ids)s, %(attempts)s)",
    "cancel running": "select milepost.cancel_running(%(ids)s, %(attempts)s)",
    "heartbeat": "select milepost.heartbeat(%(ids)s, %(attempts)s, '30 s')",
    "cancel": "select milepost.cancel(%(waiting)s || %(ids)s)",
    "retry": "select milepost.retry(%(ids)s)",
    "put": "select milepost.put('channel7', '{}')",
    "put bytes": "select milepost.put_bytes('channel7', '')",
    "put with a key": "select milepost.put('channel7', '{}', unique_key => 'k')",
    "put many": "select milepost.put_many(array['channel7', 'channel8'], array['1', '2'])",
    "put into a channel with a size": "select milepost.put('sized', '{}')",
    "put after others": "select milepost.put('channel7', '{}', after => %(ids)s)",
    "replace": "select milepost.put('keyed', '{}', unique_key => 'k', replace => true)",
    "tell followers": "select milepost.tend_followers(10)",
    "tell a follower": "insert into milepost.job_endings (job_id, ending) "
    "values (%(followed)s, 'done') returning milepost.tend_followers(10)",
    "purge dead": "select milepost.purge_dead()",
    "age": "select milepost.age_ready()",
    "duties": "select milepost.queue_duties()",
    "promote": "select milepost.promote_due()",
    "purge": "select milepost.purge_finished()",
    "tick": "select milepost.tick_schedule('hourly', '2020-01-01', now())",
    "register a schedule": "select milepost.register_schedule("
    "'daily', '1 day', null, null, now(), now() + interval '1 day', 'channel7', '')",
}
# How many pages each may touch. A take goes down to 100 channels and their policies, and writes.
FEW, SOME, MANY = 150, 500, 12_000
PAGES = {
    "promote": 20,
    "purge": 20,
    "take": MANY,
    "take from the middle": MANY,
    "take of a prefix": 2 * SOME,
    "hinted take": SOME,
    "remembered take": SOME,
    "take of a name": SOME,
    "complete": SOME,
    "complete with results": SOME,
    "defer": SOME,
    "fail": SOME,
    "give back": SOME,
    "cancel running": SOME,
    "heartbeat": SOME,
    "cancel": SOME,
    "retry": SOME,
    "tell followers": 2 * SOME,
    "tell a follower": 2 * SOME,
    "age": 2 * SOME,
}


@dataclass(frozen=True, slots=True)
class Filled:
    conn: Connection
    jobs: int

    def parameters(self, count: int = 10) -> dict[str, Any]:
        ids = one(self.conn.execute(RUNNING, [count]).fetchone())[0]
        return {
            "ids": ids,
            "attempts": [1] * len(ids),
            "results": [b""] * len(ids),
            "waiting": list(range(self.jobs // 2, self.jobs // 2 + 5)),
            "followed": self.jobs // 3,
        }

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Whatever it changes; and no duties, which have tests of their own."""
        with self.conn.transaction(force_rollback=True):
            self.conn.execute(
                "select setval('milepost.jobs_promote_at', extract(epoch from now() + '30 s')::int8"
                " * 1000), setval('milepost.jobs_recover_at', extract(epoch from now() + '30 s')"
                "::int8 * 1000)"
            )
            yield

    def plans(self, statement: str, count: int = 10) -> list[str]:
        parameters = self.parameters(count)
        reported: list[str] = []
        self.conn.add_notice_handler(lambda notice: reported.append(notice.message_detail or ""))
        with self.undone():
            self.conn.execute("set local debug_print_plan = on")
            self.conn.execute("set local client_min_messages = log")
            self.conn.execute(statement.encode(), parameters)
        return reported

    def scanned(self, plan: str) -> set[str]:
        """The tables of the queue that a plan reads from one end to the other."""
        entries = plan.split("{RANGETBLENTRY")[1:]
        found = [re.search(r":rtekind 0\s+:relid (\d+)", entry) for entry in entries]
        relations = [match[1] if match else "" for match in found]
        # Spelt `:scanrelid` up to PostgreSQL 15.
        numbers = re.findall(r"\{SEQSCAN\s.*?:(?:scan\.)?scanrelid (\d+)", plan, re.DOTALL)
        tables = self.tables()
        return {tables[relations[int(n) - 1]] for n in numbers if relations[int(n) - 1] in tables}

    def tables(self) -> dict[str, str]:
        rows = self.conn.execute(
            "select oid::text, relname from pg_class where oid in "
            "('milepost.jobs'::regclass, 'milepost.channels'::regclass, "
            "'milepost.job_dependencies'::regclass, 'milepost.job_endings'::regclass)"
        ).fetchall()
        return dict(rows)

    def pages(self, statement: str, times: int = 8) -> int:
        """How many it touches once its plans are cached."""
        parameters = self.parameters()
        explain = f"explain (analyze, buffers, format json) {statement}".encode()
        for _ in range(times):
            with self.undone():
                row = self.conn.execute(explain, parameters).fetchone()
        found = one(row)[0][0]["Plan"]
        return int(found["Shared Hit Blocks"] + found["Shared Read Blocks"])


def fill(conn: Connection, jobs: int, channels: int) -> None:
    parameters = {"jobs": jobs, "channels": channels}
    for statement in (FILL_CHANNELS, FILL_JOBS, FILL_OTHERS, FILL_FOLLOWERS):
        conn.execute(statement.encode(), parameters)
    conn.execute("select milepost.set_channel('sized', max_size => 100)")
    conn.execute(HOURLY.encode())
    conn.execute("select milepost.set_upkeep('channel77', '1 day', '1 day')")
    conn.execute("update milepost.channel_upkeep set next_ageing_at = default")
    conn.execute("select milepost.put('keyed', '{}', unique_key => 'k')")


@contextmanager
def database(server: TestServer, template: str, jobs: int, channels: int) -> Iterator[str]:
    name = server.create_database("queue_plans", template=template)
    with db.connect(server.url(name)) as conn:
        # Unlogged only to be filled sooner: the planner makes no difference.
        conn.execute("alter table milepost.jobs set unlogged")
        fill(conn, jobs, channels)
        conn.execute("vacuum (analyze) milepost.jobs, milepost.channels")
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture(scope="module")
def large_url(server: TestServer, template: Callable[[LogOrder], str]) -> Iterator[str]:
    with database(server, template("append"), JOBS, CHANNELS) as url:
        yield url


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
def large(request: pytest.FixtureRequest, large_url: str) -> Iterator[Filled]:
    with db.connect(large_url) as conn:
        conn.execute("select set_config('plan_cache_mode', %s, false)", [request.param])
        yield Filled(conn, JOBS)


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_table_is_read_from_one_end_to_the_other(large: Filled, name: str) -> None:
    plans = large.plans(STATEMENTS[name])
    assert plans
    for plan in plans:
        assert not large.scanned(plan)


@pytest.mark.parametrize("name", STATEMENTS)
def test_few_pages_are_touched(large: Filled, name: str) -> None:
    assert large.pages(STATEMENTS[name]) < PAGES.get(name, FEW)


def test_channels_are_visited_no_further_than_is_asked_for(large: Filled) -> None:
    visit = "select * from milepost.channels_with_room('', null, {})"
    one_channel, hundred = (large.pages(visit.format(n)) for n in (1, 100))
    assert one_channel < 40
    assert hundred < 100 * one_channel


def test_a_take_of_many_jobs_costs_little_more_than_at_some_thousand(
    large: Filled, server: TestServer, template: Callable[[LogOrder], str]
) -> None:
    with database(server, template("append"), 10_000, 100) as url, db.connect(url) as conn:
        few = Filled(conn, 10_000).pages(STATEMENTS["take"])
    assert large.pages(STATEMENTS["take"]) < 1.5 * few


def test_plans_that_were_made_on_empty_tables_stay_good(
    server: TestServer, template: Callable[[LogOrder], str]
) -> None:
    """A worker that waits on an empty queue keeps its plans when a lot is put at once, until
    somebody analyses the tables."""
    name = server.create_database("queue_plans", template=template("append"))
    with db.connect(server.url(name)) as conn:
        queue = Filled(conn, 0)
        for statement in STATEMENTS.values():
            queue.pages(statement)
        fill(conn, 100_000, 1_000)
        filled = Filled(conn, 100_000)
        for kind, statement in STATEMENTS.items():
            assert filled.pages(statement, times=1) < PAGES.get(kind, FEW), kind
    server.drop_database(name)


MANY_JOBS = 3_000
MANY_NAMED = [name for name, statement in STATEMENTS.items() if "%(attempts)s" in statement]


@pytest.fixture(scope="module")
def full_batch_url(server: TestServer, template: Callable[[LogOrder], str]) -> Iterator[str]:
    """All jobs of the table are running, and settled in one batch; nobody has analysed it."""
    name = server.create_database("queue_plans", template=template("append"))
    with db.connect(server.url(name)) as conn:
        conn.execute(
            "insert into milepost.jobs (channel, content, status, locked_until, taken, attempt) "
            "select 'c', '{}', 'running', clock_timestamp() + interval '1 hour', n, 1 "
            "from generate_series(1, %s) as n",
            [MANY_JOBS],
        )
    yield server.url(name)
    server.drop_database(name)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", MANY_NAMED)
def test_a_large_batch_looks_each_job_up(full_batch_url: str, name: str, mode: str) -> None:
    """A join without a lookup compares each job of the batch with each job of the table."""
    with db.connect(full_batch_url) as conn:
        conn.execute("select set_config('plan_cache_mode', %s, false)", [mode])
        plans = Filled(conn, MANY_JOBS).plans(STATEMENTS[name], MANY_JOBS)
    loops = [len(re.findall(r"\{NESTLOOP\s", plan)) for plan in plans]
    # The parameters that a join passes to its inner side.
    lookups = [len(re.findall(r":nestParams \(", plan)) for plan in plans]
    array_searches = [
        len(re.findall(r":indexqual \(\s*\{SCALARARRAYOPEXPR", plan)) for plan in plans
    ]
    assert sum(loops) + sum(array_searches) > 0
    assert loops == lookups


CHURN = """
with put as (
  insert into milepost.jobs (channel, content)
  select 'c', '' from generate_series(1, %(jobs)s) returning id
)
select array_agg(id) from put
"""
DONE = "delete from milepost.jobs where id = any(%(ids)s)"
WITH_DEAD_ENTRIES = {
    "remembered take": "select * from milepost.take_from(array['c'], 1, '30 s', "
    "array[0]::smallint[], array[clock_timestamp()], array[0]::bigint[], looks_before => true)",
    "complete": "select milepost.complete(%(ids)s, %(attempts)s)",
    "look": "select milepost.next_due()",
}


def test_dead_entries_that_a_snapshot_keeps_are_not_read_where_a_place_is_known(
    server: TestServer, template: Callable[[LogOrder], str]
) -> None:
    """Also when the planner believes that the table is empty, because it was analysed while it held
    only dead rows."""
    name = server.create_database("queue_plans", template=template("append"))
    with db.connect(server.url(name)) as holder, db.connect(server.url(name)) as conn:
        holder.execute("begin isolation level repeatable read")
        holder.execute("select count(*) from milepost.jobs")
        for _ in range(10):
            ids = one(conn.execute(CHURN, {"jobs": 3_000}).fetchone())[0]
            conn.execute("select milepost.take_from(array['c'], 3000)")
            conn.execute(DONE, {"ids": ids})
        conn.execute("analyze milepost.jobs")
        put = one(conn.execute(CHURN, {"jobs": 1}).fetchone())[0]
        conn.execute("select milepost.take_from(array['c'], 1)")
        queue = Filled(conn, 0)
        for kind, statement in WITH_DEAD_ENTRIES.items():
            assert queue.pages(statement) < 100, kind
        assert queue.parameters()["ids"] == put
        # So that this test can fail.
        assert queue.pages("select * from milepost.take_from(array['c'], 1)") > 400
    server.drop_database(name)


def test_the_plans_of_other_queries_show_what_is_to_be_avoided(large: Filled) -> None:
    """So that the tests above can fail."""
    scan = "select * from milepost.jobs order by content limit 1"
    (plan,) = large.plans(scan)
    assert large.scanned(plan) == {"jobs"}
    assert large.pages(scan, times=1) > JOBS // 100  # a page holds fewer
