"""What keeps a parked key in order, taken out: whoever looks for disorder must find some then."""

from __future__ import annotations

from milepost.db import Connection
from tests.sabotage import replace_in

_RETRY = "case when park_messages.retry then clock_timestamp() end"


def take_out_the_lock_of_letters(conn: Connection) -> None:
    """Letters are added without a lock on their key, which the foreign key takes as well."""
    conn.execute("alter table milepost.dead_letters drop constraint dead_letters_parked_id_fkey")
    replace_in(conn, "park_messages", "    for key share;\n", ";\n")


def leave_drained_keys_to_the_operator(conn: Connection) -> None:
    """A key that was drained while one more message was held back is not retried by itself."""
    replace_in(conn, "park_messages", _RETRY, "null::timestamptz")


ANYBODY_DRAINS = b"select true or %(parked_id)s is null"
ANYBODY_WORKS = b"select true or %(processor)s::text is null"
