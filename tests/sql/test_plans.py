"""The plans of the hot queries, on many messages (a million in `make soak`), as the functions
really run them.

`debug_print_plan` reports every plan that is made, also those of statements inside functions,
to the session that caused it; no extension is needed for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from milepost import Position, db, log, sql
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.server import TestServer

COUNT = int(os.environ.get("MILEPOST_PLAN_ROWS", "100000"))
PER_TRANSACTION = 100
FIRST_RECORDED = datetime(2024, 1, 1, tzinfo=UTC)
# In transaction order the messages are spread over ids that this cluster has used already.
USE_UP_IDS = """
do $$
begin
  while pg_current_xact_id()::text::bigint < %d loop
    commit;
  end loop;
end;
$$
"""
FILL = """
insert into milepost.messages (transaction_id, topic, key, type, data, recorded_at)
select %(spread)s * (1 + n / %(per_transaction)s), 'topic' || n %% 100, 'key' || n %% 1000,
  'Type' || n %% 10, '{}', %(first_recorded)s + n * interval '1 second'
from generate_series(0, %(count)s - 1) as n
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan as the server prints it, and the names of the indexes of messages."""

    text: str
    table: str
    names: dict[str, str]

    def nodes(self) -> set[str]:
        return set(re.findall(r"\{([A-Z]+)\s", self.text))

    def indexes(self) -> set[str]:
        """Those of messages that are used."""
        used = set(re.findall(r":indexid (\d+)", self.text))
        return {name for oid, name in self.names.items() if oid in used}

    def is_on_messages(self) -> bool:
        return self.table in self._relations()

    def scans_messages(self) -> bool:
        """From one end to the other, whatever the plan does with other tables."""
        relations = self._relations()
        # Spelt `:scanrelid` up to PostgreSQL 15.
        pattern = r"\{SEQSCAN\s.*?:(?:scan\.)?scanrelid (\d+)"
        scanned = re.findall(pattern, self.text, re.DOTALL)
        return any(relations[int(number) - 1] == self.table for number in scanned)

    def _relations(self) -> list[str]:
        """The oids behind the plan's range table, empty where an entry is no table."""
        entries = self.text.split("{RANGETBLENTRY")[1:]
        found = [re.search(r":rtekind 0\s+:relid (\d+)", entry) for entry in entries]
        return [match[1] if match else "" for match in found]


@dataclass(frozen=True, slots=True)
class Log:
    """A log of many messages, and a session that has made no plan yet."""

    conn: Connection
    order: LogOrder

    def position(self, number: int) -> Position:
        """Of the message of that number, from 1 on."""
        spread = 1 + (number - 1) // PER_TRANSACTION
        return Position(0 if self.order == "append" else spread, number)

    def plans(self, statement: str, parameters: dict[str, Any]) -> list[Plan]:
        """Those on messages that were made for this statement and inside its functions."""
        table, names = self._names()
        reported: list[str] = []
        self.conn.add_notice_handler(lambda notice: reported.append(notice.message_detail or ""))
        with self.conn.transaction(force_rollback=True):
            self.conn.execute("set local debug_print_plan = on")
            self.conn.execute("set local client_min_messages = log")
            self.conn.execute(statement, parameters)
        plans = [Plan(text, table, names) for text in reported]
        return [plan for plan in plans if plan.is_on_messages()]

    def buffers(self, statement: str, parameters: dict[str, Any]) -> int:
        """How many pages the whole statement touches, its functions included, once everything
        about it is cached and the plan cache has made up its mind."""
        for _ in range(8):
            row = self.conn.execute(
                f"explain (analyze, buffers, format json) {statement}", parameters
            ).fetchone()
        assert row is not None
        found = row[0][0]["Plan"]
        return int(found["Shared Hit Blocks"] + found["Shared Read Blocks"])

    def _names(self) -> tuple[str, dict[str, str]]:
        rows = self.conn.execute(
            "select indrelid::text, indexrelid::text, relname from pg_index "
            "join pg_class on pg_class.oid = indexrelid "
            "where indrelid = 'milepost.messages'::regclass"
        ).fetchall()
        return rows[0][0], {oid: name for _, oid, name in rows}


@pytest.fixture(scope="module", params=["append", "transaction"])
def filled(
    request: pytest.FixtureRequest, server: TestServer, template: Callable[[LogOrder], str]
) -> Iterator[tuple[LogOrder, str]]:
    order: LogOrder = request.param
    name = server.create_database("plans", template=template(order))
    with db.connect(server.url(name)) as conn:
        conn.execute(USE_UP_IDS % (COUNT // PER_TRANSACTION + 10))
        # Unlogged only to be filled sooner: the planner makes no difference.
        conn.execute("alter table milepost.messages set unlogged")
        # Analysed by us, at a moment that is known.
        conn.execute("alter table milepost.messages set (autovacuum_enabled = off)")
        parameters = {
            "spread": 0 if order == "append" else 1,
            "per_transaction": PER_TRANSACTION,
            "first_recorded": FIRST_RECORDED,
            "count": COUNT,
        }
        conn.execute("set session_replication_role = replica")  # which may name transaction ids
        conn.execute(FILL, parameters)
        conn.execute("vacuum (analyze) milepost.messages")
    yield order, server.url(name)
    server.drop_database(name)


@pytest.fixture(params=["force_custom_plan", "force_generic_plan", "auto"])
def large(request: pytest.FixtureRequest, filled: tuple[LogOrder, str]) -> Iterator[Log]:
    order, url = filled
    with db.connect(url) as conn:
        conn.execute("select set_config('plan_cache_mode', %s, false)", [request.param])
        yield Log(conn, order)


READ = """
select * from milepost.read(
  row(%(transaction_id)s, %(position)s)::milepost.position, 100, %(topics)s, %(types)s,
  row(%(segment_id)s, %(segment_mask)s)::milepost.segment
)
"""
FILTERS: dict[str, dict[str, Any]] = {
    "everything": {},
    "a topic": {"topics": ["topic7"]},
    "a topic that is not there": {"topics": ["nowhere"]},
    "many types": {"types": ["Type1", "Type2", "Type3"]},
    "a topic and a type": {"topics": ["topic7"], "types": ["Type7"]},
    "a segment": {"segment_id": 3, "segment_mask": 15},
    "all of them": {"topics": ["topic7"], "types": ["Type7"], "segment_id": 3, "segment_mask": 15},
}
UNFILTERED = {"topics": None, "types": None, "segment_id": None, "segment_mask": None}
PLACES = {
    "from zero": 0,
    "deep": COUNT // 10,
    "half way": COUNT // 2,
    "near the end": COUNT - 500,
    "at the end": COUNT,
}
# The index's four levels, a page or two of messages, and what planning anew looks up.
FEW_PAGES = 40
TO_AVOID = {"SEQSCAN", "SORT", "INCREMENTALSORT", "GATHER", "GATHERMERGE", "BITMAPHEAPSCAN"}


def reading(large: Log, number: int, chosen: str = "everything") -> dict[str, Any]:
    after = large.position(number) if number else Position.BEGINNING
    place = {"transaction_id": after.transaction_id, "position": after.position}
    return UNFILTERED | FILTERS[chosen] | place


@pytest.mark.parametrize("chosen", FILTERS)
@pytest.mark.parametrize("place", PLACES)
def test_reading_walks_the_index_in_order(large: Log, place: str, chosen: str) -> None:
    # The last plan is that of the rows; those before it are the horizon's.
    plan = large.plans(READ, reading(large, PLACES[place], chosen))[-1]
    assert {"LIMIT", "INDEXSCAN"} <= plan.nodes()
    assert plan.indexes() == {"messages_pkey"}
    assert not plan.nodes() & TO_AVOID


@pytest.mark.parametrize("chosen", FILTERS)
def test_reading_touches_few_pages_when_caught_up(large: Log, chosen: str) -> None:
    assert large.buffers(READ, reading(large, COUNT, chosen)) < FEW_PAGES


@pytest.mark.parametrize("number", [0, COUNT // 10, COUNT // 2, COUNT - 500])
def test_reading_a_batch_touches_the_pages_of_that_batch(large: Log, number: int) -> None:
    assert large.buffers(READ, reading(large, number)) < FEW_PAGES


@pytest.mark.parametrize("topics", [None, ["topic7"]])
def test_the_last_messages_are_found_backwards(large: Log, topics: list[str] | None) -> None:
    """In a log that is shorter than the longest walk, too."""
    newest = large.position(COUNT)
    parameters = {
        "last_transaction_id": newest.transaction_id,
        "last_position": newest.position,
        "topics": topics,
        "types": None,
        "max_count": 20,
        "max_walked": 10 * COUNT,
    }
    statement = sql.query("range_tail", "milepost").decode()
    (plan,) = large.plans(statement, parameters)
    assert plan.indexes() == {"messages_pkey"}
    assert not plan.scans_messages()
    assert large.buffers(statement, parameters) < FEW_PAGES


HORIZON = "select milepost.is_held(horizon) from milepost.horizon() as horizon"


def test_the_horizon_never_scans_the_messages(large: Log) -> None:
    plans = large.plans(HORIZON, {})
    assert plans
    for plan in plans:
        assert plan.indexes() <= {"messages_pkey"}
        assert not plan.scans_messages()
        assert "SORT" not in plan.nodes()
    assert large.buffers(HORIZON, {}) < FEW_PAGES


APPEND = "insert into milepost.messages (type, data) values ('T', '{}')"


def test_appending_never_scans_the_messages(large: Log) -> None:
    plans = large.plans(APPEND, {})
    assert plans
    assert not any(plan.scans_messages() for plan in plans)


def test_a_recent_time_is_found_through_the_small_index(large: Log) -> None:
    recent = FIRST_RECORDED + timedelta(seconds=COUNT - 1000)
    plan = large.plans("select milepost.position_at(%(time)s)", {"time": recent})[-1]
    assert plan.indexes() == {"messages_recorded_at"}
    assert not plan.scans_messages()
    found = log.start_position(large.conn, recent)
    assert found == Position(large.position(COUNT - 999).transaction_id, COUNT - 1000)


def test_the_plans_of_other_queries_show_what_is_to_be_avoided(large: Log) -> None:
    """So that the tests above can fail."""
    scanned = "select * from milepost.messages order by id limit 1"
    (plan,) = large.plans(scanned, {})
    assert {"SEQSCAN", "SORT"} <= plan.nodes()
    assert plan.scans_messages()
    assert large.buffers(scanned, {}) > 1000
