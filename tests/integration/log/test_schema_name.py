"""Every name works under another schema, whatever the schema is called."""

from __future__ import annotations

import pytest

from milepost import Message, Milepost, db, sql
from milepost.errors import InvalidSchemaName
from milepost.log import Reader
from milepost.sql import LogOrder

USABLE = ["other_log", "_", "a" * 48, "public", "order", "user", "select", "position", "read"]


@pytest.mark.parametrize("schema", USABLE)
def test_a_log_works_under_any_usable_name(
    empty_database: str, order: LogOrder, schema: str
) -> None:
    mp = Milepost(empty_database, schema=schema)
    mp.migrate(order)
    with mp.connect() as conn, db.connect(empty_database) as own:
        reader = Reader(own, schema=schema)
        reader.listen()
        assert reader.read().messages == []
        positions = [*mp.append(conn, Message("One", {}))]
        reader.wait(60)
        positions += mp.append(conn, *(Message("Many", {"n": n}) for n in range(250)))
        assert [m.position for m in mp.read()] == positions
        assert [m.position for m in reader.read().messages] == positions
        conn.execute(f"select \"{schema}\".append('Sql', '{{}}')")
        assert conn.execute(f'select "{schema}".rebase()').fetchone() is not None
        assert [m.type for m in mp.read(positions[-1])] == ["Sql"]
        assert [m.type for m in mp.read(reader.read().messages[0].recorded_at)] == ["Sql"]


@pytest.mark.parametrize("order", ["append", "transaction"])
def test_a_log_works_under_the_name_of_anything_it_is_made_of(
    empty_database: str, order: LogOrder
) -> None:
    for schema in ["append", "append_many", "horizon", "messages", "log", "segment", "m", "after"]:
        mp = Milepost(empty_database, schema=schema)
        mp.migrate(order)
        with mp.connect() as conn:
            mp.append(conn, Message("T", {}))
        assert [m.type for m in mp.read(topics=["default"])] == ["T"]


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "Milepost",
        "1st",
        "pg_log",
        "a-b",
        "a b",
        "a.b",
        'a"b',
        "a'b",
        "é",
        "a" * 49,
        "a\n",
        "{a}",
    ],
)
def test_a_name_that_would_need_quoting_is_refused(schema: str) -> None:
    with pytest.raises(InvalidSchemaName, match="lower-case letters") as caught:
        Milepost("", schema=schema)
    assert caught.value.schema == schema
    with pytest.raises(InvalidSchemaName):
        sql.query("horizon", schema)
