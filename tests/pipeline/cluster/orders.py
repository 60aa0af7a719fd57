"""What the log holds in these tests, and what one query over it says that must come out."""

from __future__ import annotations

from milepost import Message, Milepost
from milepost.db import Connection
from tests.soak import Figures

TOPIC = "orders"
CUSTOMERS = 500
COUNT = 60_000
BATCH = 20_000
PARTITIONS = 4
SEEN = "seen"
SPENDING = "spending"
HANDLED = "handled"

# One query each over the log: what the pipelines of `application` must have made of it.
SPENDING_QUERY = """
select key, count(*), sum((data ->> 'amount')::bigint) from milepost.messages
where topic = 'orders' group by key order by key
"""
SEEN_QUERY = "select position from milepost.messages where topic = 'orders' order by position"


def append_orders(mp: Milepost, conn: Connection) -> None:
    """And as many messages again that nobody here asks for."""
    mp.append(conn, *(message for number in range(COUNT) for message in _messages(number)))


def position_of(conn: Connection, number: int) -> int:
    """Of the order with this number, counted from 0."""
    rows = query(conn, SEEN_QUERY)
    return int(str(rows[number][0]))


def _messages(number: int) -> tuple[Message, Message]:
    order = Message("Placed", {"amount": number}, key=f"c{number % CUSTOMERS}", topic=TOPIC)
    return order, Message("Looked", {"amount": -1}, key="c1", topic="visits")


def note_outcome(figures: Figures, conn: Connection, table: str, kills: int) -> None:
    """Of a table with a row for each order."""
    ((rows, distinct),) = query(conn, f"select count(*), count(distinct position) from {table}")  # noqa: S608
    there, once = int(str(rows)), int(str(distinct))
    figures(messages=COUNT, kills=kills, lost=COUNT - once, doubled=there - once)


def query(conn: Connection, text: str) -> list[tuple[object, ...]]:
    return conn.execute(text.encode()).fetchall()
