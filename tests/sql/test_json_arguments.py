"""put, put_many, append and append_many take JSON as SQL people write it: json, jsonb, text, and
literals without a type."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json, Jsonb

from milepost.db import Connection, one
from milepost.queue import put
from milepost.queue.verbs import take
from milepost.records import Job
from milepost.sql import LogOrder

# As it stands in a SQL text: with escapes of JSON, spaces and an order that jsonb would change,
# and characters beyond ASCII.
NUL = "\\u0000"
WRITTEN = '{"b": "line\\nbreak", "a":  1.10, "path": "C:\\\\x41", "ü": "\\u00e9\\u0000"}'
# What jsonb makes of it; without the NUL, which jsonb cannot hold.
FOR_JSONB = WRITTEN.replace(NUL, "")
AS_JSONB = '{"a": 1.10, "b": "line\\nbreak", "ü": "é", "path": "C:\\\\x41"}'
NOT_JSON = ["hello", "", "{'a': 1}", r"\x7b7d", '{"a": 1', '"line\nbreak"']
invalid = pytest.raises(psycopg.errors.InvalidTextRepresentation, match="type json")


@pytest.fixture
def order() -> LogOrder:
    """The arguments are the same in both."""
    return "append"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def run(
    conn: Connection,
    statement: str,
    parameters: Sequence[Any] | Mapping[str, Any] | None = None,
) -> Any:
    return one(conn.execute(statement.encode(), parameters).fetchone())[0]


def contents(conn: Connection) -> list[tuple[str, str | None]]:
    return conn.execute(
        "select convert_from(content, 'UTF8'), convert_from(state, 'UTF8') "
        "from milepost.jobs order by id"
    ).fetchall()


def data(conn: Connection) -> list[tuple[str, str]]:
    return conn.execute(
        "select data::text, metadata::text from milepost.messages order by position"
    ).fetchall()


@pytest.mark.parametrize(
    ("typed", "given", "kept"),
    [
        ("", WRITTEN, WRITTEN),
        ("::text", WRITTEN, WRITTEN),
        ("::varchar", WRITTEN, WRITTEN),
        ("::json", WRITTEN, WRITTEN),
        ("::jsonb", FOR_JSONB, AS_JSONB),
    ],
)
def test_every_function_takes_every_type_and_keeps_it_as_written(
    conn: Connection, typed: str, given: str, kept: str
) -> None:
    value = literal(given) + typed
    run(conn, f"select milepost.put('c', {value})")
    run(conn, f"select milepost.put(channel => 'c', state => {value}, content => {value})")
    run(conn, f"select milepost.put_many(array['c'], array[{value}])")
    run(conn, f"select milepost.put_many(array['c'], array[{value}], states => array[{value}])")
    expected = [(kept, None), (kept, kept)]
    assert contents(conn) == expected + expected

    run(conn, f"select milepost.append('T', {value})")
    run(conn, f"select milepost.append('T', {value}, 'k', metadata => {value})")
    assert data(conn) == [(kept, "{}"), (kept, kept)]
    # The server takes the elements apart, and no NUL survives that.
    given, kept = given.replace(NUL, ""), kept.replace(NUL, "")
    elements = literal(f'[{{"type": "T", "data": {given}, "metadata": {given}}}]') + typed
    run(conn, f"select milepost.append_many({elements})")
    assert data(conn)[2:] == [(kept, kept)]


def test_parameters_of_drivers_are_taken_as_they_are_sent(conn: Connection) -> None:
    """psycopg sends str and lists of str without a type, so that the server decides."""
    for value in (WRITTEN, Json({"a": "\n"}), Jsonb({"a": "\n"})):
        run(conn, "select milepost.put('c', %s, state => %s)", [value, value])
        run(conn, "select milepost.put_many(%s, %s, states => %s)", [["c"], [value], [value]])
        run(conn, "select milepost.append('T', %s, metadata => %s)", [value, value])
    run(conn, "select milepost.append_many(%s)", ['[{"type": "T", "data": 1}]'])
    run(conn, "select milepost.append_many(%s)", [Json([{"type": "T", "data": 2}])])
    run(conn, "select milepost.append_many(%s)", [Jsonb([{"type": "T", "data": 3}])])
    small = '{"a": "\\n"}'
    assert contents(conn) == [(text, text) for text in (WRITTEN, WRITTEN, *[small] * 4)]
    assert data(conn) == [
        *[(text, text) for text in (WRITTEN, small, small)],
        ("1", "{}"), ("2", "{}"), ("3", "{}"),
    ]  # fmt: skip


def test_parameters_whose_types_the_server_decides_are_text(conn: Connection) -> None:
    """asyncpg, pgx and others ask the server for the types: PREPARE shows what it says."""
    conn.execute("prepare one as select milepost.put($1, $2)")
    conn.execute("prepare many as select milepost.put_many($1, $2)")
    conn.execute("prepare appending as select milepost.append($1, $2)")
    conn.execute("prepare appending_many as select milepost.append_many($1)")
    types = dict(
        conn.execute(
            "select name, parameter_types::text[] from pg_prepared_statements where from_sql"
        ).fetchall()
    )
    assert types["one"] == types["appending"] == ["text", "text"]
    assert types["many"] == ["text[]", "text"]
    assert types["appending_many"] == ["text"]


def test_an_untyped_array_is_an_array(conn: Connection) -> None:
    run(conn, """select milepost.put_many('{c,d}', '{"{\\"a\\": 1}",2}', states => '{3,null}')""")
    assert contents(conn) == [('{"a": 1}', "3"), ("2", None)]
    assert run(conn, "select array_agg(channel order by id) from milepost.jobs") == ["c", "d"]


def test_the_other_arguments_arrive_with_every_type(conn: Connection) -> None:
    run_at = datetime(2100, 1, 1, tzinfo=UTC)
    arguments = "%s, 7, 3, 'k', keep_for => '1 hour'"
    arrays = "array[%s]::timestamptz[], array[7], array[3], array['k'], keep_for => '{1 hour}'"
    for number, typed in enumerate(("", "::text", "::json", "::jsonb")):
        run(conn, f"select milepost.put('c{number}', '1'{typed}, {arguments})", [run_at])
        run(
            conn,
            f"select milepost.put_many('{{m{number}}}', array['1'{typed}], {arrays})",
            [run_at],
        )
    rows = conn.execute(
        "select run_at, priority, max_attempts, unique_key, keep_for::text, status::text "
        "from milepost.jobs"
    ).fetchall()
    assert rows == [(run_at, 7, 3, "k", "01:00:00", "scheduled")] * 8
    again = run(conn, "select milepost.put('c0', '2', unique_key => 'k')")
    assert again == run(conn, "select id from milepost.jobs where channel = 'c0'")


@pytest.mark.parametrize("text", NOT_JSON)
@pytest.mark.parametrize("typed", ["", "::text"])
def test_what_is_not_json_is_refused_and_nothing_is_written(
    conn: Connection, typed: str, text: str
) -> None:
    value = literal(text) + typed
    for statement in (
        f"select milepost.put('c', {value})",
        f"select milepost.put('c', '{{}}', state => {value})",
        f"select milepost.put_many(array['c', 'c'], array['1', {value}])",
        f"select milepost.append('T', {value})",
        f"select milepost.append('T', '{{}}', metadata => {value})",
        f"select milepost.append_many({value})",
    ):
        with invalid as caught:
            conn.execute(statement.encode())
        assert caught.value.diag.message_detail, "says which token"
    assert (contents(conn), data(conn)) == ([], [])


def test_bytes_have_functions_of_their_own(conn: Connection) -> None:
    run(conn, r"select milepost.put_bytes('c', '\x00ff', state => '\x01')")
    run(conn, r"select milepost.put_many_bytes(array['c'], array['\x02ff'::bytea])")
    assert [(job.raw, job.raw_state) for job in take(conn, 5)] == [
        (b"\x00\xff", b"\x01"),
        (b"\x02\xff", None),
    ]


@pytest.mark.parametrize("value", [{"a": "x\0y"}, "\N{PILE OF POO}", 1.5, None, [{"b": "\\"}]])
def test_sql_stores_what_python_stores(conn: Connection, value: Any) -> None:
    """A NUL too: in the queue it is an escape in bytes, which Python reads again."""
    put(conn, Job("c", value))
    run(conn, "select milepost.put('c', %s)", [json.dumps(value)])
    assert [job.content for job in take(conn, 2)] == [value, value]
