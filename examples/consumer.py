"""A consumer of your own: threads handle orders in any order, a committer keeps its checkpoint.

The checkpoint never passes an order that is not handled. Order 3 fails in the first run: the later
ones are handled, the checkpoint stays before it, and the next run begins there.

    milepost migrate
    python examples/consumer.py append 20         # append 20 orders
    python examples/consumer.py fail 3            # handle them; the third one fails
    python examples/consumer.py                   # go on from the checkpoint
    python examples/consumer.py                   # there is nothing left to do
"""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor

from milepost import (
    CheckpointCommitter,
    Message,
    Milepost,
    Position,
    PostgresCheckpointStore,
    RecordedMessage,
)

ID = "example-consumer"
THREADS = 4
CLOSE_SECONDS = 10.0
mp = Milepost()


def append(count: int) -> None:
    with mp.connect() as conn, conn.transaction():
        mp.append(
            conn,
            *(
                Message("OrderPlaced", {"order": n}, key=f"order-{n}", topic="example-orders")
                for n in range(1, count + 1)
            ),
        )
    print(f"appended {count} orders")


def handle(message: RecordedMessage, failing: int | None) -> None:
    """Stands for a call of another system."""
    if message.data["order"] == failing:
        raise ConnectionError(f"order {failing} failed")


def consume(failing: int | None) -> None:
    # A connection of its own, in no transaction: any thread may store at any time.
    with mp.connect() as own:
        committer = CheckpointCommitter(PostgresCheckpointStore(own), ID, batch_size=5)
        start = committer.checkpoint or Position.BEGINNING
        print(f"begin after {start}")
        done = [work.exception() for work in begin(committer, start, failing)]
        gap = committer.oldest_gap
        if gap is not None:
            print(f"message {gap.sequence} of this run is not complete")
        committer.close(timeout=CLOSE_SECONDS)
    print(f"handled {done.count(None)} of {len(done)}, the checkpoint is {committer.checkpoint}")


def begin(
    committer: CheckpointCommitter, start: Position, failing: int | None
) -> list[Future[None]]:
    """Admitted in the order of the log, completed in any order."""

    def work(message: RecordedMessage, sequence: int) -> None:
        handle(message, failing)
        committer.complete(message.position, sequence)

    with ThreadPoolExecutor(THREADS) as pool:
        found = []
        for message in mp.read(start, topics=["example-orders"]):
            sequence = committer.admit()  # waits while max_pending are not complete
            if sequence is not None:  # only with a timeout
                found.append(pool.submit(work, message, sequence))
    return found


def main(action: str = "consume", number: str = "") -> None:
    if action == "append":
        append(int(number))
    else:
        consume(int(number) if action == "fail" else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
