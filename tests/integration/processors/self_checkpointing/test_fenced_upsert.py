"""The upsert of tests/unit/.../test_fenced_upsert.py, in PostgreSQL and through psycopg."""

from __future__ import annotations

import pytest

from milepost import FencedUpsert, Segment, StaleWrite, Trigger
from milepost.db import Connection

UPSERT = FencedUpsert("shop.balances", ["account"], ["amount"])


def claim(epoch: int) -> Trigger:
    return Trigger(Segment.WHOLE, lambda: None, epoch)


def test_a_former_owner_overwrites_nothing(conn: Connection) -> None:
    conn.execute("create schema shop")
    conn.execute("create table shop.balances (account text primary key, amount int, epoch bigint)")

    def write(epoch: int, rows: dict[str, int]) -> None:
        with conn.transaction(), conn.cursor() as cursor:
            UPSERT.write(cursor, claim(epoch), rows.items())

    write(1, {"a": 1, "b": 1})
    write(2, {"a": 2})
    with pytest.raises(StaleWrite, match="has written 1 rows"):
        write(1, {"a": 9, "b": 9, "c": 9})
    found = conn.execute("select account, amount from shop.balances order by account").fetchall()
    assert found == [("a", 2), ("b", 1)]
