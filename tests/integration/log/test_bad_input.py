"""Bad input gets a clear error before anything is written, and harms nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from milepost import Message, Milepost, MilepostError, append
from milepost.db import Connection, translated
from milepost.errors import (
    ConnectionUnusable,
    InvalidMessage,
    PayloadTooLarge,
    ReadOnlyServer,
    ReadOnlyTransaction,
)
from milepost.log.append import COPY_FROM
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES

MIB = DEFAULT_MAX_PAYLOAD_BYTES
append_order = pytest.mark.parametrize("order", ["append"])


@dataclass(frozen=True)
class Reading:
    value: float


def circular() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["self"] = data
    return data


BAD_MESSAGES: dict[str, tuple[Message, str, str]] = {
    "NaN": (Message("T", float("nan")), "data", "None or a string"),
    "NaN inside": (Message("T", {"a": [1, {"b": float("nan")}]}), "data", "None or a string"),
    "infinity": (Message("T", {"a": float("inf")}), "data", "None or a string"),
    "minus infinity": (Message("T", (float("-inf"),)), "data", "None or a string"),
    "bytes": (Message("T", {"a": b"x"}), "data", "not JSON"),
    "circular": (Message("T", circular()), "data", "not JSON"),
    "set": (Message("T", {"a": {1, 2}}), "data", "not JSON"),
    "Decimal": (Message("T", {"a": Decimal("1.5")}), "data", "not JSON"),
    "object": (Message("T", object()), "data", "not JSON"),
    "number as a key of data": (Message("T", {1: "a"}), "data", "not JSON"),
    "integer beyond 64 bits": (Message("T", 2**64), "data", "not JSON"),
    "NUL in a value": (Message("T", {"a": "x\0y"}), "data", "NUL"),
    "NUL in a key of data": (Message("T", {"x\0y": 1}), "data", "NUL"),
    "NUL deep inside": (Message("T", [{"a": ("\0",)}]), "data", "NUL"),
    "lone surrogate in data": (Message("T", {"a": "\ud800"}), "data", "not JSON"),
    "NUL in the type": (Message("T\0", {}), "type", "NUL"),
    "NUL in the topic": (Message("T", {}, topic="a\0"), "topic", "NUL"),
    "NUL in the key": (Message("T", {}, key="a\0"), "key", "NUL"),
    "lone surrogate in the type": (Message("\ud800", {}), "type", "surrogate"),
    "lone surrogate in the topic": (Message("T", {}, topic="\udfff"), "topic", "surrogate"),
    "lone surrogate in the key": (Message("T", {}, key="k\ud800"), "key", "surrogate"),
    "empty type": (Message("", {}), "type", "1 to 255"),
    "empty topic": (Message("T", {}, topic=""), "topic", "1 to 255"),
    "empty key": (Message("T", {}, key=""), "key", "1 to 1024"),
    "oversized type": (Message("T" * 256, {}), "type", "1 to 255"),
    "oversized topic": (Message("T", {}, topic="t" * 256), "topic", "1 to 255"),
    "oversized key": (Message("T", {}, key="k" * 1025), "key", "1 to 1024"),
    "type that is no text": (Message(None, {}), "type", "must be a str"),  # type: ignore[arg-type]
    "topic that is no text": (Message("T", {}, topic=None), "topic", "must be a str"),  # type: ignore[arg-type]
    "key that is no text": (Message("T", {}, key=5), "key", "must be a str"),  # type: ignore[arg-type]
    "id that is text": (Message("T", {}, id="a"), "id", "uuid.UUID"),  # type: ignore[arg-type]
    "metadata that is a list": (Message("T", {}, metadata=[1]), "metadata", "mapping"),  # type: ignore[arg-type]
    "NaN in a dataclass": (Message("T", Reading(float("nan"))), "data", "None or a string"),
    "NaN in metadata": (Message("T", {}, metadata={"a": float("nan")}), "metadata", "None or"),
    "bytes in metadata": (Message("T", {}, metadata={"a": b"x"}), "metadata", "not JSON"),
}
GOOD_MESSAGES: dict[str, Message] = {
    "backslash-u0000 as six characters": Message("T", {"a": "\\u0000", "\\u0000": 1}),
    "null beside the text NaN": Message("T", {"a": None, "b": "NaN", "c": ["null"]}),
    "longest type": Message("T" * 255, {}),
    "longest topic": Message("T", {}, topic="é" * 255),
    "longest key": Message("T", {}, key="😀" * 1024),
    "largest integers": Message("T", [2**63 - 1, -(2**63), 2**64 - 1]),
    "control characters": Message("T", "\x01\x1f\x7f", key="\x01\t\n\\", topic="\r"),
    "null": Message("T", None),
    "text": Message("T", "text"),
}


@pytest.fixture
def open_transaction(conn: Connection, mp: Milepost) -> Iterator[Connection]:
    """A transaction with a statement of its own, which must still commit after the test."""
    conn.execute("create table things (n integer)")
    with conn.transaction():
        conn.execute("insert into things values (1)")
        yield conn
        assert conn.execute("select from milepost.messages").fetchall() == []
    assert conn.execute("select n from things").fetchall() == [(1,)]
    assert list(mp.read()) == []


def refused(kind: type[MilepostError], conn: Connection, *messages: Message) -> MilepostError:
    with pytest.raises(kind) as caught:
        append(conn, *messages)
    return caught.value


@append_order
@pytest.mark.parametrize("case", BAD_MESSAGES)
def test_a_bad_message_is_refused_and_the_transaction_goes_on(
    case: str, open_transaction: Connection
) -> None:
    message, field, advice = BAD_MESSAGES[case]
    error = refused(InvalidMessage, open_transaction, message)
    assert isinstance(error, InvalidMessage)
    assert error.field == field
    assert advice in str(error)


@append_order
@pytest.mark.parametrize("count", [1, COPY_FROM])
def test_one_bad_message_among_good_ones_leaves_nothing_behind(
    count: int, open_transaction: Connection
) -> None:
    good = [Message("Good", {}) for _ in range(count)]
    refused(InvalidMessage, open_transaction, *good, Message("Bad", b""))


@append_order
@pytest.mark.parametrize("case", GOOD_MESSAGES)
@pytest.mark.parametrize("count", [1, 2, COPY_FROM])
def test_what_only_looks_bad_is_accepted(
    case: str, count: int, conn: Connection, mp: Milepost
) -> None:
    message = GOOD_MESSAGES[case]
    append(conn, *[message] * count)
    read = [(m.type, m.topic, m.key, m.data) for m in mp.read()]
    assert read == [(message.type, message.topic, message.key, message.data)] * count


def payload(size: int) -> Message:
    """Data of so many bytes of JSON, quotes included; the empty metadata takes two more."""
    return Message("T", "x" * (size - 2))


@append_order
def test_a_payload_above_a_mebibyte_is_refused(open_transaction: Connection) -> None:
    error = refused(PayloadTooLarge, open_transaction, payload(MIB - 1))
    assert f"{MIB + 1} bytes" in str(error)
    assert "append a reference" in str(error)


@append_order
def test_a_payload_of_a_mebibyte_is_accepted(conn: Connection, mp: Milepost) -> None:
    append(conn, payload(MIB - 2))
    assert [len(m.data) for m in mp.read()] == [MIB - 4]


@append_order
def test_the_payload_is_counted_in_bytes_and_with_its_metadata(
    open_transaction: Connection,
) -> None:
    refused(PayloadTooLarge, open_transaction, Message("T", "😀" * (MIB // 4)))
    half = "x" * (MIB // 2)
    refused(PayloadTooLarge, open_transaction, Message("T", half, metadata={"a": half}))


@append_order
def test_the_payload_limit_can_be_lowered_and_raised(url: str, conn: Connection) -> None:
    with pytest.raises(PayloadTooLarge, match="limit is 10"):
        Milepost(url, max_payload_bytes=10).append(conn, payload(9))
    Milepost(url, max_payload_bytes=10).append(conn, payload(8))
    Milepost(url, max_payload_bytes=2 * MIB).append(conn, payload(MIB))
    row = conn.execute("select count(*) from milepost.messages").fetchone()
    assert row == (2,)


def sql_append(conn: Connection, size: int) -> None:
    conn.execute("select milepost.append('T', to_json(repeat('x', %s)))", [size - 2])


def sql_append_many(conn: Connection, size: int) -> None:
    conn.execute(
        "select milepost.append_many(%s::json)",
        [json.dumps([{"type": "Good", "data": 1}, {"type": "T", "data": "x" * (size - 2)}])],
    )


@pytest.mark.parametrize("append_in_sql", [sql_append, sql_append_many])
def test_sql_refuses_a_payload_above_the_limit(
    append_in_sql: Any, conn: Connection, mp: Milepost
) -> None:
    with pytest.raises(psycopg.Error, match="bytes, the limit is 1048576") as caught:
        append_in_sql(conn, MIB + 1)
    assert caught.value.sqlstate == "MP004"
    assert "append a reference" in str(caught.value.diag.message_hint)
    with pytest.raises(PayloadTooLarge, match="append a reference"), translated("milepost"):
        append_in_sql(conn, MIB + 1)
    conn.execute("set milepost.max_payload_bytes = 20")
    with pytest.raises(psycopg.Error, match="bytes, the limit is 20"):
        append_in_sql(conn, 30)
    assert list(mp.read()) == []
    conn.execute("set milepost.max_payload_bytes = 2097152")
    append_in_sql(conn, MIB + 1)
    assert [m.type for m in mp.read()][-1] == "T"


@append_order
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("type", ""),
        ("type", "t" * 256),
        ("topic", ""),
        ("topic", "t" * 256),
        ("key", ""),
        ("key", "k" * 1025),
    ],
)
def test_a_plain_insert_refuses_the_same_lengths(column: str, value: str, conn: Connection) -> None:
    row = {"type": "T", "topic": "topic", "key": "key"} | {column: value}
    with pytest.raises(psycopg.errors.CheckViolation, match=f"messages_{column}_length"):
        conn.execute(
            "insert into milepost.messages (type, topic, key, data) "
            "values (%(type)s, %(topic)s, %(key)s, '{}')",
            row,
        )


@append_order
def test_a_plain_insert_accepts_the_longest_texts(conn: Connection, mp: Milepost) -> None:
    conn.execute(
        "insert into milepost.messages (type, topic, key, data) values (%s, %s, %s, '{}')",
        ["é" * 255, "é" * 255, "é" * 1024],
    )
    assert [len(m.key or "") for m in mp.read()] == [1024]


@pytest.mark.parametrize("count", [1, 2, COPY_FROM])
def test_a_closed_connection_is_refused(count: int, url: str, mp: Milepost) -> None:
    conn = psycopg.connect(url)
    conn.close()
    error = refused(ConnectionUnusable, conn, *[Message("T", {})] * count)
    assert "Open a new one" in str(error)
    assert list(mp.read()) == []


@append_order
def test_a_closed_async_connection_is_refused(url: str) -> None:
    async def appending() -> None:
        conn = await psycopg.AsyncConnection.connect(url)
        await conn.close()
        await append(conn, Message("T", {}))

    with pytest.raises(ConnectionUnusable, match="Open a new one"):
        asyncio.run(appending())


@pytest.mark.parametrize("count", [1, 2, COPY_FROM])
def test_a_failed_transaction_is_refused(count: int, conn: Connection, mp: Milepost) -> None:
    conn.execute("begin")
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute("select 1 / 0")
    error = refused(ConnectionUnusable, conn, *[Message("T", {})] * count)
    assert "Roll it back" in str(error)
    conn.execute("rollback")
    assert list(mp.read()) == []


@pytest.mark.parametrize("count", [1, 2, COPY_FROM])
def test_transactions_that_are_read_only_by_default_are_refused(
    count: int, conn: Connection, mp: Milepost
) -> None:
    conn.execute("set default_transaction_read_only = on")
    error = refused(ReadOnlyServer, conn, *[Message("T", {})] * count)
    assert "default_transaction_read_only is on" in str(error)
    assert "Connect to the primary" in str(error)
    assert list(mp.read()) == []


@append_order
@pytest.mark.parametrize("count", [1, 2, COPY_FROM])
def test_a_read_only_transaction_is_told_from_a_read_only_server(
    count: int, conn: Connection, mp: Milepost
) -> None:
    conn.read_only = True
    with conn.transaction(force_rollback=True):
        error = refused(ReadOnlyTransaction, conn, *[Message("T", {})] * count)
    assert "BEGIN READ ONLY" in str(error)
    assert "begin one that may write" in str(error)
    conn.read_only = None
    with conn.transaction():
        append(conn, *[Message("T", {})] * count)
    assert len(list(mp.read())) == count


@append_order
@pytest.mark.parametrize("count", [1, COPY_FROM])
def test_a_read_only_transaction_of_an_async_connection_is_told_too(count: int, url: str) -> None:
    async def appending() -> None:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            await conn.set_read_only(True)
            await append(conn, *[Message("T", {})] * count)

    with pytest.raises(ReadOnlyTransaction, match="the server is not"):
        asyncio.run(appending())


@append_order
@pytest.mark.parametrize(
    ("given", "named", "advice"),
    [
        ({"type": "T", "data": {}}, "dict", 'Message("Type", data)'),
        ("T", "str", 'Message("Type", data)'),
        (None, "NoneType", 'Message("Type", data)'),
        (Message, "type", 'Message("Type", data)'),
        ([Message("T", {})], "list", r"append(conn, *messages)"),
    ],
)
@pytest.mark.parametrize("count", [0, 1, COPY_FROM])
def test_what_is_not_a_message_is_a_type_error_that_names_both(
    given: Any, named: str, advice: str, count: int, open_transaction: Connection
) -> None:
    with pytest.raises(TypeError) as caught:
        append(open_transaction, *[Message("T", {})] * count, given)
    assert f"takes messages (milepost.Message), not {named}: nothing was written" in str(
        caught.value
    )
    assert advice in str(caught.value)


@append_order
def test_a_bad_message_is_named_before_a_bad_connection(url: str) -> None:
    conn = psycopg.connect(url)
    conn.close()
    refused(InvalidMessage, conn, Message("", {}))


@append_order
def test_appending_nothing_writes_nothing(conn: Connection, mp: Milepost) -> None:
    assert append(conn) == []
    assert list(mp.read()) == []
