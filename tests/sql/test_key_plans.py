"""The plans of reads by key, of conditions and of known ids, on many messages: by the optional
indexes, whatever the planner believes about keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from milepost import Position, db, indexes
from milepost.sql import LogOrder
from tests.server import TestServer
from tests.sql.test_plans import (
    COUNT,
    FEW_PAGES,
    FILL,
    FIRST_RECORDED,
    PER_TRANSACTION,
    TO_AVOID,
    USE_UP_IDS,
    Log,
)

READ = """
select * from milepost.read_key(
  %(key)s, row(%(transaction_id)s, %(position)s)::milepost.position, 100, %(topics)s, %(types)s
)
"""
CHECK = """
select milepost.refuse_newer(
  %(key)s, row(%(transaction_id)s, %(position)s)::milepost.position, %(types)s
)
"""
KNOWN = "select * from milepost.known_ids(%(ids)s)"
# One key has a third of the log, so that its index is no better than another, by the statistics.
MORE = """
update milepost.messages set key = 'frequent' where "position" % 3 = 0
"""
KEYS = ["key7", "frequent", "nobody's"]
PLACES = {"from zero": 0, "half way": COUNT // 2, "at the end": COUNT}


@pytest.fixture(scope="module", params=["append", "transaction"])
def filled(
    request: pytest.FixtureRequest, server: TestServer, template: Callable[[LogOrder], str]
) -> Iterator[tuple[LogOrder, str]]:
    order: LogOrder = request.param
    name = server.create_database("key_plans", template=template(order))
    with db.connect(server.url(name)) as conn:
        conn.execute(USE_UP_IDS % (COUNT // PER_TRANSACTION + 10))
        conn.execute("alter table milepost.messages set unlogged")
        conn.execute("alter table milepost.messages set (autovacuum_enabled = off)")
        parameters = {
            "spread": 0 if order == "append" else 1,
            "per_transaction": PER_TRANSACTION,
            "first_recorded": FIRST_RECORDED,
            "count": COUNT,
        }
        conn.execute("set session_replication_role = replica")
        conn.execute(FILL, parameters)
        conn.execute(MORE)
        both = indexes.wanted(key=True, id_=True)
        indexes.create(conn, "milepost", both, 60.0, lambda _blockers: None)
        conn.execute("vacuum (analyze) milepost.messages")
    yield order, server.url(name)
    server.drop_database(name)


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
def large(request: pytest.FixtureRequest, filled: tuple[LogOrder, str]) -> Iterator[Log]:
    order, url = filled
    with db.connect(url) as conn:
        conn.execute("select set_config('plan_cache_mode', %s, false)", [request.param])
        yield Log(conn, order)


def place(large: Log, number: int, key: str, **options: Any) -> dict[str, Any]:
    after = large.position(number) if number else Position.BEGINNING
    found = {"transaction_id": after.transaction_id, "position": after.position, "key": key}
    return {"topics": None, "types": None} | found | options


@pytest.mark.parametrize("options", [{}, {"topics": ["topic7"], "types": ["Type7"]}])
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("key", KEYS)
def test_reading_a_key_walks_its_index_in_order(
    large: Log, key: str, where: str, options: dict[str, Any]
) -> None:
    plan = large.plans(READ, place(large, PLACES[where], key, **options))[-1]
    assert {"LIMIT", "INDEXSCAN"} <= plan.nodes()
    assert plan.indexes() == {"messages_key"}
    assert not plan.nodes() & TO_AVOID


def test_reading_a_key_touches_the_pages_of_its_messages(large: Log) -> None:
    for number in (COUNT, COUNT - 500):
        assert large.buffers(READ, place(large, number, "key7")) < FEW_PAGES
    assert large.buffers(READ, place(large, 0, "nobody's")) < FEW_PAGES


@pytest.mark.parametrize("types", [None, ["Type7"]])
@pytest.mark.parametrize("key", KEYS)
def test_a_condition_looks_at_the_end_of_its_key(
    large: Log, key: str, types: list[str] | None
) -> None:
    parameters = place(large, COUNT, key, types=types)
    plans = [plan for plan in large.plans(CHECK, parameters) if "messages_key" in plan.indexes()]
    assert [plan.indexes() for plan in plans] == [{"messages_key"}]
    assert not plans[0].scans_messages()
    assert large.buffers(CHECK, parameters) < FEW_PAGES


def test_ids_are_looked_up_by_their_index(large: Log) -> None:
    rows = large.conn.execute("select id from milepost.messages limit 3").fetchall()
    parameters = {"ids": [*(id_ for (id_,) in rows), UUID(int=0)]}
    (plan,) = large.plans(KNOWN, parameters)
    assert plan.indexes() == {"messages_id"}
    assert not plan.scans_messages()
    assert large.buffers(KNOWN, parameters) < FEW_PAGES
    assert len(large.conn.execute(KNOWN, parameters).fetchall()) == 3
