"""One instance of the processor under torture: keeps balances until it is told to stop or killed.

Run as `python -m tests.chaos.processors.instance URL SEED`. Every message adds its amount to the
balance of its account, and leaves a row with its position in a table without any constraint, so
that what happens twice shows.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable

from milepost import Milepost, RecordedMessage
from milepost.db import Connection

NAME = "balances"
BATCH_SIZES = (1, 7, 40, 200)
TABLES = """
create table balances (account text primary key, amount bigint not null);
create table effects (
  number bigint generated always as identity,
  transaction_id bigint not null,
  position bigint not null
);
"""
_LEAVE = "insert into effects (transaction_id, position) values (%s, %s)"
_ADD = """
insert into balances (account, amount) values (%s, %s)
on conflict (account) do update set amount = balances.amount + excluded.amount
"""


def apply(messages: Iterable[RecordedMessage], tx: Connection, rng: random.Random) -> None:
    """With pauses, so that a kill meets every part of a batch."""
    for message in messages:
        position = message.position
        tx.execute(_LEAVE, [position.transaction_id, position.position])
        if rng.random() < 0.02:
            time.sleep(rng.uniform(0, 0.05))
        tx.execute(_ADD, [message.key, message.data["amount"]])


def main(url: str, seed: str) -> None:
    rng = random.Random(int(seed))
    mp = Milepost(url)

    @mp.processor(NAME, batch_size=rng.choice(BATCH_SIZES), poll_seconds=0.2)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        apply(messages, tx, rng)

    mp.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
