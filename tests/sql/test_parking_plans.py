"""The plans of what a parking processor asks, with 100,000 parked keys, and letters of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest

from milepost import db, sql
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.server import TestServer

COUNT = 100_000
KEYS = """
insert into milepost.parked_keys (processor, version, digest, key)
select case when n %% 10 = 0 then 'other' else 'parking' end, 1,
  sha256(convert_to('key-' || n, 'UTF8')), 'key-' || n
from generate_series(1, %(count)s) as n
"""
LETTERS = """
insert into milepost.dead_letters (
  processor, version, transaction_id, "position", message_id, topic, key, type, data, metadata,
  recorded_at, error, traceback, attempts, is_parked, parked_id
)
select 'parking', 1, 0, n, gen_random_uuid(), 'default', 'key-1', 'Done', '{}', '{}', now(), '', '',
  1, true, (select id from milepost.parked_keys where key = 'key-1')
from generate_series(1, %(count)s) as n
"""
OF = {"processor": "parking", "version": 1}


@pytest.fixture(scope="module")
def filled(server: TestServer, template: Callable[[LogOrder], str]) -> Iterator[str]:
    name = server.create_database("parking_plans", template=template("append"))
    with db.connect(server.url(name)) as conn:
        conn.execute(KEYS, {"count": COUNT})
        conn.execute(LETTERS, {"count": COUNT})
        conn.execute("vacuum (analyze) milepost.parked_keys, milepost.dead_letters")
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
def parked(request: pytest.FixtureRequest, filled: str) -> Iterator[Connection]:
    with db.connect(filled) as conn:
        conn.execute("select set_config('plan_cache_mode', %s, false)", [request.param])
        yield conn


def plan(conn: Connection, query: str, **parameters: Any) -> dict[str, Any]:
    """Of a named query as it is really run, prepared, with the pages that it touches."""
    text = b"explain (analyze, buffers, format json) " + sql.query(query)
    row = conn.execute(text, OF | parameters, prepare=True).fetchone()
    assert row is not None
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return dict(found[0]["Plan"])


def nodes(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield found
    for child in found.get("Plans", []):
        yield from nodes(child)


def scans(found: dict[str, Any]) -> set[tuple[str, str | None]]:
    each = [node for node in nodes(found) if "Relation Name" in node or "Index Name" in node]
    return {(node["Node Type"].replace(" Only", ""), node.get("Index Name")) for node in each}


def pages(found: dict[str, Any]) -> int:
    return int(found["Shared Hit Blocks"] + found["Shared Read Blocks"])


@pytest.mark.parametrize("among", [1, 500])
def test_which_keys_of_a_batch_are_parked_is_found_by_index(parked: Connection, among: int) -> None:
    keys = [f"key-{n * 7}" if n % 2 else f"none-{n}" for n in range(among)]
    digests = [sha256(key.encode()).digest() for key in keys]
    found = plan(parked, "parked_among", digests=digests)
    names = {name for _, name in scans(found) if name is not None}
    assert names == {"parked_keys_once"}, found
    assert not [node for node in nodes(found) if node["Node Type"] == "Seq Scan"]
    assert pages(found) <= 5 * among + 10


def test_the_first_letter_of_a_key_is_found_at_once(parked: Connection) -> None:
    row = parked.execute("select id from milepost.parked_keys where key = 'key-1'").fetchone()
    assert row is not None
    found = plan(parked, "parked_next", parked_id=row[0], most=1)
    assert scans(found) == {("Index Scan", "dead_letters_parked")}
    assert not [node for node in nodes(found) if "Sort" in node["Node Type"]]
    assert pages(found) <= 10


def test_letters_are_counted_only_up_to_the_limit(parked: Connection) -> None:
    found = plan(parked, "parked_count", max_parked=1000)
    assert max(node["Actual Rows"] for node in nodes(found)) <= 1001
    assert pages(found) <= 1100


def test_what_is_to_be_retried_is_found_without_looking_at_all_keys(parked: Connection) -> None:
    found = plan(parked, "parked_requested", segment=0, mask=0)
    assert ("Index Scan", "parked_keys_requested") in scans(found)
    assert pages(found) <= 20
