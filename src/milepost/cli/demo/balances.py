"""An exactly-once processor that keeps balances, in segments that its instances share; one of them
is `python -m milepost.cli.demo.balances SCHEMA`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import sql
from milepost.app import Milepost
from milepost.db import one

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors import Processor
    from milepost.records import RecordedMessage

# Small, so that a kill meets it in the middle of a batch.
BATCH_SIZE = 50
SEGMENTS = 8
CLAIM_SECONDS = 2.0  # how long the segments of a dead instance wait for another one


@dataclass(frozen=True, slots=True)
class Balances:
    """The processor's table against one SQL query over the log."""

    customers: int
    wrong: int
    sum_of_log: int
    sum_of_balances: int

    @property
    def is_faultless(self) -> bool:
        return self.customers > 0 and not self.wrong


def balances_processor(mp: Milepost) -> Processor:
    deposit = sql.query("demo_deposit", mp.schema)

    @mp.processor("balances", batch_size=BATCH_SIZE, segments=SEGMENTS, claim_seconds=CLAIM_SECONDS)
    def balances(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute(deposit, message.data)

    return balances


def make_table(mp: Milepost) -> None:
    with mp.connect() as conn:
        conn.execute(sql.query("demo_balances_make", mp.schema))


def check(mp: Milepost) -> Balances:
    with mp.connect() as conn:
        row = conn.execute(sql.query("demo_balances_check", mp.schema)).fetchone()
    return Balances(*one(row))


def main() -> None:
    mp = Milepost(schema=sys.argv[1])
    balances_processor(mp)
    mp.run()


if __name__ == "__main__":
    main()
