"""Functions that are called later: a receipt for each order, in the transaction that places the
order, with a client that all calls share, and the caller waits for the last one.

    milepost migrate
    milepost run examples.receipts:mp             # in another terminal; Ctrl-C ends it
    python examples/receipts.py 3                 # place 3 orders, wait for the last receipt
    milepost queue
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from milepost import SUPPLIED, Milepost, Retry, TakenJob
from milepost.db import Connection

CREATE = "create table if not exists example_orders (id serial primary key, receipt text)"
INSERT = "insert into example_orders select from generate_series(1, %s) returning id"
mp = Milepost()
mp.task_channel("receipts", concurrency=4, retry=Retry(first_seconds=0.2))


class Printer:
    """Stands for a client of a mail server: opened once, used by all calls."""

    def send(self, order: int, to: str) -> str:
        print(f"receipt of order {order} to {to}")
        return f"receipt-{order}"


@mp.resource
def printer() -> Iterator[Printer]:
    print("the printer is on")
    yield Printer()
    print("the printer is off")


@mp.around(channel="receipts")
def timed(job: TakenJob, call: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    result = call()
    print(f"job {job.id} took {(time.perf_counter() - began) * 1000:.0f} ms")
    return result


@mp.task(channel="receipts", keep_for=timedelta(hours=1))
def send_receipt(
    tx: Connection, order: int, to: str = "nobody", *, printer: Printer = SUPPLIED
) -> str:
    """Its note that the receipt was sent commits with the completion of its job."""
    receipt = printer.send(order, to)
    tx.execute("update example_orders set receipt = %s where id = %s", [receipt, order])
    return receipt


def place_orders(count: int) -> None:
    with mp.connect() as conn, conn.transaction():
        conn.execute(CREATE)
        orders = conn.execute(INSERT, [count]).fetchall()
        handles = [send_receipt.put(conn, order=id_, to="user@example.org") for (id_,) in orders]
    print(f"the last receipt is {handles[-1].wait(timeout=60)}")


if __name__ == "__main__":
    place_orders(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
