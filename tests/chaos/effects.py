"""What a torture asks of the table of effects while it lasts."""

from __future__ import annotations

from milepost.db import Connection, one

_DOUBLED = "select count(*) - count(distinct (transaction_id, position)) from effects"
_LAST = "select coalesce(max(number), 0) from effects"


def doubled(conn: Connection) -> int:
    """How many happened more than once."""
    return int(one(conn.execute(_DOUBLED).fetchone())[0])


def last_number(conn: Connection) -> int:
    """Of the latest one; 0 where there is none."""
    return int(one(conn.execute(_LAST).fetchone())[0])
