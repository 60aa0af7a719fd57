"""One instance of the segmented processor under torture.

Run as `python -m tests.chaos.segments.instance URL SEED`. Every message leaves a row with its
position in a table without any constraint, so that what happens twice shows.
"""

from __future__ import annotations

import random
import sys
import time

from milepost import Milepost, RecordedMessage
from milepost.db import Connection

NAME, SEGMENTS, CLAIM_SECONDS = "tortured", 16, 1.0
BATCH_SIZES = (20, 100, 400)
TABLE = """
create table effects (
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


def main(url: str, seed: str) -> None:
    rng = random.Random(int(seed))
    mp = Milepost(url)

    @mp.processor(
        NAME, segments=SEGMENTS, claim_seconds=CLAIM_SECONDS, poll_seconds=0.2,
        batch_size=rng.choice(BATCH_SIZES), concurrency=rng.choice([None, 2]),
    )  # fmt: skip
    def leave(messages: list[RecordedMessage], tx: Connection) -> None:
        """With pauses, so that a kill meets every part of a batch."""
        at = [message.position for message in messages]
        tx.execute(_LEAVE, [[p.transaction_id for p in at], [p.position for p in at]])
        if rng.random() < 0.2:
            time.sleep(rng.uniform(0, 0.05))

    mp.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
