"""Rows in another database: a former owner does not overwrite those of the present one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from milepost import FencedUpsert, Segment, StaleWrite, Trigger

TABLE = "create table balances (account text primary key, amount integer, epoch integer not null)"
UPSERT = FencedUpsert("balances", ["account"], ["amount"], placeholder="?")


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    conn = sqlite3.connect(":memory:")
    conn.execute(TABLE)
    yield conn
    conn.close()


def claim(epoch: int) -> Trigger:
    return Trigger(Segment(1, 3), lambda: None, epoch)


def write(database: sqlite3.Connection, epoch: int, rows: dict[str, int]) -> None:
    with database:
        UPSERT.write(database.cursor(), claim(epoch), rows.items())


def rows(database: sqlite3.Connection) -> dict[str, int]:
    return dict(database.execute("select account, amount from balances"))


def test_the_same_and_a_later_claim_overwrite(database: sqlite3.Connection) -> None:
    write(database, 1, {"a": 1, "b": 1})
    write(database, 1, {"a": 2})
    write(database, 2, {"a": 3, "c": 1})
    assert rows(database) == {"a": 3, "b": 1, "c": 1}


def test_a_former_claim_is_refused_and_leaves_nothing(database: sqlite3.Connection) -> None:
    write(database, 2, {"a": 3})
    with pytest.raises(StaleWrite, match=r"Segment 1, epoch 1.*has written 1 rows") as caught:
        write(database, 1, {"a": 1, "b": 1})
    assert caught.value.epoch == 1
    assert rows(database) == {"a": 3}


def test_nothing_to_write_is_nothing_written(database: sqlite3.Connection) -> None:
    write(database, 1, {})
    assert rows(database) == {}


def test_the_statement_is_plain_sql() -> None:
    upsert = FencedUpsert("shop.balances", ["shop", "account"], ["amount"], epoch="claim")
    assert upsert.statement == (
        "insert into shop.balances as kept (shop, account, amount, claim) values (%s, %s, %s, %s) "
        "on conflict (shop, account) do update "
        "set amount = excluded.amount, claim = excluded.claim "
        "where kept.claim <= excluded.claim"
    )


@pytest.mark.parametrize("name", ["a b", "x; drop table y", 'a"b', "", "a.b.c"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a plain name"):
        FencedUpsert(name, ["key"], [])
    with pytest.raises(ValueError, match="is not a plain name"):
        FencedUpsert("t", ["key"], [name])


def test_without_a_key_there_is_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="key is empty"):
        FencedUpsert("t", [], ["a"])
