"""A small shop: orders are placed in one transaction with their message; one processor keeps the
revenue of each customer exactly once, another sends mails at least once, four at a time.

    milepost migrate
    python examples/shop.py 20                    # place 20 orders
    milepost run examples.shop:mp                 # in another terminal; Ctrl-C ends it
    milepost status
"""

from __future__ import annotations

import random
import sys
import time

from milepost import Message, Milepost, RecordedMessage
from milepost.db import Connection

mp = Milepost()

TABLES = """
create table if not exists orders (id bigserial primary key, customer text, total int not null);
create table if not exists revenue (customer text primary key, total bigint not null);
"""


@mp.processor("revenue", topics=["orders"], types=["OrderPlaced"])
def keep_revenue(messages: list[RecordedMessage], tx: Connection) -> None:
    """Effects through `tx` commit together with the checkpoint."""
    for message in messages:
        tx.execute(
            "insert into revenue values (%(customer)s, %(total)s) on conflict (customer) "
            "do update set total = revenue.total + excluded.total",
            message.data,
        )


@mp.processor(
    "mails", topics=["orders"], handle="message", delivery="at_least_once", concurrency=4,
)  # fmt: skip
def send_mail(message: RecordedMessage) -> None:
    """No transaction reaches a mail server: after a crash, some are sent again."""
    time.sleep(0.05)
    print(f"mail to {message.data['customer']}: thank you for order {message.data['order']}")


def place_order(conn: Connection, customer: str, total: int) -> None:
    with conn.transaction():
        row = conn.execute(
            "insert into orders (customer, total) values (%s, %s) returning id", [customer, total]
        ).fetchone()
        order = {"order": row and row[0], "customer": customer, "total": total}
        mp.append(conn, Message("OrderPlaced", order, key=customer, topic="orders"))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with mp.connect() as conn:
        conn.execute(TABLES.encode())
        for _ in range(count):
            place_order(conn, random.choice(["ada", "grace", "edsger"]), random.randint(5, 200))
    print(f"placed {count} orders; the log ends at {mp.horizon()}")


if __name__ == "__main__":
    main()
