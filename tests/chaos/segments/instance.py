"""One instance of the segmented processor under torture.

Run as `python -m tests.chaos.segments.instance URL SEED [deferred]`. Every message leaves a row
with its position in a table without any constraint, so that what happens twice shows. Deferred,
they are kept in memory first, and lost with the process.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from functools import partial

from milepost import (
    LATEST,
    Checkpointing,
    Milepost,
    Position,
    RecordedMessage,
    Segment,
    Trigger,
    db,
)
from milepost.db import Connection
from milepost.processors.self_checkpointing.api import Report

NAME, SEGMENTS, CLAIM_SECONDS = "tortured", 16, 1.0
BATCH_SIZES = (20, 100, 400)
ASK_SECONDS = 0.3
TABLE = """
create table if not exists effects (
  number bigint generated always as identity,
  transaction_id bigint not null,
  position bigint not null
)
"""
_LEAVE = """
insert into effects (transaction_id, position)
select t, p from unnest(%s::bigint[], %s::bigint[]) with ordinality as m (t, p, n)
order by n
"""


class Keeping(Checkpointing):
    """Keeps in memory what it was given, by segment, and writes it down when it is asked."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._kept: dict[Segment, list[Position]] = {}

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        self._kept[segment] = []
        threading.Thread(target=ask_now_and_then, args=(trigger,), daemon=True).start()

    def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
        self._kept[segment] += [message.position for message in messages]

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        if kept := self._kept[segment]:
            with db.connect(self._url) as conn:
                leave(conn, kept)
            kept.clear()
        return LATEST


def ask_now_and_then(trigger: Trigger) -> None:
    while trigger.is_active:
        trigger.request()
        threading.Event().wait(ASK_SECONDS)


def leave(conn: Connection, at: list[Position]) -> None:
    conn.execute(_LEAVE, [[p.transaction_id for p in at], [p.position for p in at]])


def main(url: str, seed: str, mode: str = "exactly once") -> None:
    rng = random.Random(int(seed))
    mp = Milepost(url)
    make = partial(
        mp.processor, NAME, segments=SEGMENTS, claim_seconds=CLAIM_SECONDS, poll_seconds=0.2,
        batch_size=rng.choice(BATCH_SIZES), concurrency=rng.choice([None, 2]),
    )  # fmt: skip

    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        """With pauses, so that a kill meets every part of a batch."""
        leave(tx, [message.position for message in messages])
        if rng.random() < 0.2:
            time.sleep(rng.uniform(0, 0.05))

    if mode == "deferred":
        make(delivery="at_least_once")(Keeping(url))
    else:
        make()(handle)
    mp.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
