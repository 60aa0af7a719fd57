"""PgBouncer dies and comes back: everybody goes on, every effect once."""

from __future__ import annotations

from collections import Counter

from milepost import Job, Message, Milepost, RecordedMessage, TakenJob
from milepost.db import Connection
from tests.integration.processors.running import running
from tests.integration.queue.worker.working import is_empty, working
from tests.pgbouncer import PgBouncer
from tests.waiting import wait_until

KILLS = 3
COUNT = 200


def test_workers_and_processors_outlive_it(
    pooled: Milepost, bouncer: PgBouncer, mp: Milepost, conn: Connection
) -> None:
    conn.execute("create table effects (kind text, n int)")

    @pooled.processor("keep", batch_size=10, poll_seconds=0.05)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute("insert into effects values ('message', %s)", [message.data["n"]])

    @pooled.worker("emails", lock=2, poll_seconds=0.05)
    def send(job: TakenJob, tx: Connection) -> None:
        tx.execute("insert into effects values ('job', %s)", [job.content])

    with running(keep), working(send):
        for kill in range(KILLS):
            numbers = range(kill * COUNT, (kill + 1) * COUNT)
            mp.append(conn, *(Message("Counted", {"n": n}) for n in numbers))
            mp.put(conn, *(Job("emails", n) for n in numbers))
            # Of both: whoever has not begun yet would not even start without it.
            wait_until(lambda so_far=kill * COUNT: fewest(conn) > so_far)  # type: ignore[misc]
            bouncer.kill()
            bouncer.start()
        wait_until(lambda: is_empty(conn) and fewest(conn) >= KILLS * COUNT)
    found = conn.execute("select kind, n from effects order by kind, n").fetchall()
    assert found == [(kind, n) for kind in ("job", "message") for n in range(KILLS * COUNT)]


def fewest(conn: Connection) -> int:
    """Effects of one kind, that of which there are fewer."""
    kinds = Counter(kind for (kind,) in conn.execute("select kind from effects"))
    return min(kinds["job"], kinds["message"])
