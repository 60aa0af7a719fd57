"""What keeps a parked key in order, taken out: whoever looks for disorder must find some then."""

from __future__ import annotations

from milepost import sql
from milepost.db import Connection

_LOCK = "    for key share;\n"
_PARK = sql.render(
    (sql._ROOT / "functions" / "park_messages.sql").read_text("utf-8"), sql.DEFAULT_SCHEMA
)
_RETRY = "case when park_messages.retry then clock_timestamp() end"


def take_out_the_lock_of_letters(conn: Connection) -> None:
    """Letters are added without a lock on their key, which the foreign key takes as well."""
    assert _LOCK in _PARK
    conn.execute("alter table milepost.dead_letters drop constraint dead_letters_parked_id_fkey")
    conn.execute(_PARK.replace(_LOCK, ";\n").encode())


def leave_drained_keys_to_the_operator(conn: Connection) -> None:
    """A key that was drained while one more message was held back is not retried by itself."""
    assert _RETRY in _PARK
    conn.execute(_PARK.replace(_RETRY, "null::timestamptz").encode())


ANYBODY_DRAINS = b"select true or %(parked_id)s is null"
ANYBODY_WORKS = b"select true or %(processor)s::text is null"
