"""The committer on PostgreSQL, as a consumer without a processor uses it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost import CheckpointCommitter, PostgresCheckpointStore, db
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import CheckpointMoved, CommitterInterrupted
from milepost.records import Position

KEY = CheckpointKey("billing")


def complete(committer: CheckpointCommitter, *positions: int) -> None:
    for position in positions:
        sequence = committer.admit()
        assert sequence is not None
        committer.complete(Position(0, position), sequence)


def test_it_goes_on_from_what_is_stored_and_a_second_consumer_is_found_out(
    url: str, conn: Connection
) -> None:
    with db.connect(url) as own:
        with CheckpointCommitter(PostgresCheckpointStore(own), "billing") as committer:
            complete(committer, 1, 2, 3)
        again = CheckpointCommitter(PostgresCheckpointStore(own), "billing")
        assert again.checkpoint == Position(0, 3)
        other = CheckpointCommitter(PostgresCheckpointStore(conn), "billing")
        complete(other, 4)
        other.close()
        complete(again, 4, 5)
        with pytest.raises(CheckpointMoved, match="'further'"):
            again.close()
    found = PostgresCheckpointStore(conn).load(KEY)
    assert found is not None
    assert found.position == Position(0, 4)


def test_a_close_with_a_deadline_ends_while_the_server_lets_the_store_wait(
    url: str, conn: Connection
) -> None:
    conn.execute("alter function milepost.store_checkpoint set lock_timeout = '1h'")
    with db.connect(url) as own, ThreadPoolExecutor(1) as pool:
        committer = CheckpointCommitter(PostgresCheckpointStore(own), "billing")
        complete(committer, 1)
        committer.flush()
        complete(committer, 2)
        with conn.transaction():
            conn.execute("select 1 from milepost.checkpoints for update")
            closing = pool.submit(committer.close, timeout=0.2)
            with pytest.raises(CommitterInterrupted, match=r"complete up to 0:2.*stored up to 0:1"):
                closing.result(60)  # while the lock is held: it would be waited for for an hour
        committer.close(timeout=30)
        assert committer.checkpoint == Position(0, 2)
