"""One process of the archive's torture: archives, removes, compacts and sweeps, handles messages,
or rebuilds a pipeline, until it is killed.

Run as `python -m tests.chaos.archive.instance ROLE URL SEED`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from datetime import timedelta

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
-- Files that were joined, and files that were swept.
create table upkeep (joined bigint not null, swept bigint not null);
-- Up to where rebuilds came whose result was what it should be.
create table rebuilds (transaction_id bigint not null, position bigint not null);
"""
_LEAVE = "insert into effects (transaction_id, position) values (%s, %s)"
_KEPT_UP = "insert into upkeep (joined, swept) values (%s, %s)"
FILE_MESSAGES = 700
JOINED_MESSAGES = 5_000
# Long enough for a file that was just written to be added to the manifest. A reader that holds the
# name of a file that was swept finds the one that has replaced it.
SWEPT_AFTER = timedelta(seconds=1)


def archive(url: str, _rng: random.Random) -> None:
    runtime = Runtime(url, "milepost", timing=Timing(archive_seconds=0.05))
    size = FileSize(file_messages=FILE_MESSAGES, least_messages=FILE_MESSAGES // 4)
    retry = Retry(first_seconds=0.1, longest_seconds=0.5)
    Archiver(runtime, size, retry=retry, standby=retry).run()


def remove(url: str, rng: random.Random) -> None:
    """What every consumer has passed."""
    while True:
        with db.connect(url) as conn:
            remove_old(conn)
        time.sleep(rng.uniform(0, 0.2))


def keep_up(url: str, rng: random.Random) -> None:
    """Join small files, and sweep what they and killed processes have left."""
    from milepost.archive.upkeep import compact, sweep

    while True:
        with db.connect(url) as conn:
            joined = compact(conn, "milepost", target_messages=JOINED_MESSAGES).joined
            swept = sweep(conn, "milepost", older_than=SWEPT_AFTER).removed
            conn.execute(_KEPT_UP, [joined, len(swept)])
        time.sleep(rng.uniform(0, 0.3))


def handle(url: str, rng: random.Random) -> None:
    mp = Milepost(url)

    @mp.processor(NAME, batch_size=rng.choice([7, 40, 200, 1000]), poll_seconds=0.2)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        rows = [(m.position.transaction_id, m.position.position) for m in messages]
        with tx.cursor() as cursor:
            cursor.executemany(_LEAVE, rows)

    # An error that lasts must be seen by the torture, and not be tried again for ever.
    mp.run(only=[NAME], fail_fast=True)


def rebuild(url: str, rng: random.Random) -> None:
    from tests.chaos.archive.sums import rebuild_again

    rebuild_again(url, rng)


def commit_first(url: str, _rng: random.Random) -> None:
    """What must never be done: the manifest's row before its file is durable. And it is killed
    between the two."""
    from tests.integration.archive import killed_archiver

    killed_archiver.main(url, "committed_first")


Role = Callable[[str, random.Random], None]
ROLES: dict[str, Role] = {
    "archiver": archive,
    "remover": remove,
    "processor": handle,
    "compactor": keep_up,
}
# Java takes seconds to start. It is started later than the others, and killed less often.
REBUILD = "rebuild"
SPARK_STARTED = "Spark has started"  # it says so before anything is rebuilt
HASTY = "hasty archiver"
_ALL = ROLES | {REBUILD: rebuild, HASTY: commit_first}


def main(role: str, url: str, seed: str) -> None:
    _ALL[role](url, random.Random(int(seed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
