"""One process of the archive's torture: archives, removes, or handles messages, until it is killed.

Run as `python -m tests.chaos.archive.instance ROLE URL SEED`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from milepost import Milepost, RecordedMessage, db
from milepost.archive import Archiver, FileSize, remove_old
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.retry import Retry
from milepost.runtime import Runtime, Timing

NAME = "effects"
KEY = CheckpointKey(NAME)
TABLES = """
create table effects (
  number bigint generated always as identity,
  transaction_id bigint not null,
  position bigint not null
);
-- What was committed, however much of the log is removed later.
create table witness (like milepost.messages);
create function keep_witness() returns trigger language plpgsql security definer as $$
begin
  insert into witness select added.* from added;
  return null;
end $$;
create trigger witness after insert on milepost.messages
referencing new table as added for each statement execute function keep_witness();
"""
_LEAVE = "insert into effects (transaction_id, position) values (%s, %s)"
FILE_MESSAGES = 700


def archive(url: str, _rng: random.Random) -> None:
    runtime = Runtime(url, "milepost", timing=Timing(archive_seconds=0.05))
    size = FileSize(file_messages=FILE_MESSAGES, least_messages=FILE_MESSAGES // 4)
    Archiver(runtime, size, standby=Retry(first_seconds=0.1, longest_seconds=0.5)).run()


def remove(url: str, rng: random.Random) -> None:
    """What every consumer has passed."""
    while True:
        with db.connect(url) as conn:
            remove_old(conn)
        time.sleep(rng.uniform(0, 0.2))


def handle(url: str, rng: random.Random) -> None:
    mp = Milepost(url)

    @mp.processor(NAME, batch_size=rng.choice([7, 40, 200, 1000]), poll_seconds=0.2)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        rows = [(m.position.transaction_id, m.position.position) for m in messages]
        with tx.cursor() as cursor:
            cursor.executemany(_LEAVE, rows)

    mp.run(only=[NAME])


ROLES: dict[str, Callable[[str, random.Random], None]] = {
    "archiver": archive,
    "remover": remove,
    "processor": handle,
}


def main(role: str, url: str, seed: str) -> None:
    ROLES[role](url, random.Random(int(seed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
