"""Messages that PostgreSQL takes and Python cannot decode, for the tests of all who read."""

from __future__ import annotations

from milepost.db import Connection
from milepost.records import Position

DIGITS = "1" * 5000
NESTED = "[" * 1500 + "]" * 1500
# What is written, and what the reason has in it.
KINDS = {
    "digits": ("digits", DIGITS, "{}", None),
    "nested": ("nested deeper", NESTED, "{}", None),
    "metadata": ("nested deeper", "{}", f'{{"deep": {NESTED}}}', None),
    "infinity": ("infinity", "{}", "{}", "infinity"),
    "-infinity": ("-infinity", "{}", "{}", "-infinity"),
    "BC": ("0044-03-15", "{}", "{}", "0044-03-15 12:00:00+00 BC"),
    "far": ("20000-01-01", "{}", "{}", "20000-01-01 00:00:00+00"),
}
_INSERT = """
insert into milepost.messages (type, topic, key, data, metadata, recorded_at)
values ('Odd', %s, %s, %s::json, %s::json, coalesce(%s::timestamptz, clock_timestamp()))
returning transaction_id, "position"
"""


def append_undecodable(
    conn: Connection, kind: str = "digits", key: str | None = None, topic: str = "default"
) -> Position:
    """By plain SQL, as whoever writes it does."""
    _, data, metadata, recorded_at = KINDS[kind]
    row = conn.execute(_INSERT, [topic, key, data, metadata, recorded_at]).fetchone()
    assert row is not None
    return Position(*row)
