"""Workers that are killed: what they held ahead is not blamed, and a job that kills its worker ends
alone. With real processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from milepost import Job, Milepost
from milepost.db import Connection, one
from tests.integration.queue.worker.crashing import crashing, events
from tests.integration.queue.worker.working import statuses
from tests.waiting import wait_until
from tests.zygote import Process

QUICK, HANGING = 200, 100
HANDLERS = 4
LEFT = "select count(*) from milepost.jobs"
HELD = f"{LEFT} where status = 'running'"


def put_quick_and_hanging(mp: Milepost, conn: Connection, max_attempts: int) -> None:
    contents: list[dict[str, bool]] = [{}] * QUICK + [{"hang": True}] * HANGING
    mp.put(conn, *(Job("c", content, max_attempts=max_attempts) for content in contents))


def number(conn: Connection, query: str) -> int:
    return int(one(conn.execute(query.encode()).fetchone())[0])


def wait_until_all_handlers_hang(conn: Connection, history: Path) -> None:
    """And others are held ahead. The quick jobs are gone: the server knows that they have ended."""
    wait_until(lambda: len(events(history, "begin")) == QUICK + HANDLERS)
    wait_until(lambda: number(conn, LEFT) == HANGING)
    wait_until(lambda: number(conn, HELD) > HANDLERS)


def recover(conn: Connection) -> None:
    """As if the locks of the dead worker had run out."""
    conn.execute(
        "update milepost.jobs set locked_until = clock_timestamp() where status = 'running'"
    )
    conn.execute("select milepost.recover_expired()")


def failures(conn: Connection) -> dict[int, tuple[str, int]]:
    rows = conn.execute("select id, status::text, failures from milepost.jobs").fetchall()
    return {id_: (status, number) for id_, status, number in rows}


def test_only_what_has_begun_is_dead_after_a_crash(
    mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    put_quick_and_hanging(mp, conn, max_attempts=1)
    with crashing(url, history, HANDLERS):
        wait_until_all_handlers_hang(conn, history)
    recover(conn)
    hanging = set(events(history, "begin")) - set(events(history, "end"))
    found = failures(conn)
    assert {id_ for id_, (status, _) in found.items() if status == "dead"} == hanging
    assert {facts for id_, facts in found.items() if id_ not in hanging} == {("ready", 0)}
    conn.execute("update milepost.jobs set content = '{}' where status = 'ready'")
    with crashing(url, history, HANDLERS):
        wait_until(lambda: statuses(conn) == [("dead", 1, 1)] * HANDLERS)
    assert set(Counter(events(history, "begin")).values()) == {1}


def test_an_attempt_that_was_only_held_ahead_is_no_failure(
    mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    put_quick_and_hanging(mp, conn, max_attempts=25)
    with crashing(url, history, HANDLERS):
        wait_until_all_handlers_hang(conn, history)
        wait_until(lambda: number(conn, f"{HELD} and is_begun") == HANDLERS)
    recover(conn)
    hanging = set(events(history, "begin")) - set(events(history, "end"))
    assert {id_ for id_, facts in failures(conn).items() if facts == ("ready", 1)} == hanging
    assert Counter(failures(conn).values()) == {
        ("ready", 1): HANDLERS, ("ready", 0): HANGING - HANDLERS,
    }  # fmt: skip


def has_ended(process: Process) -> bool:
    return process.poll() is not None


def is_over(conn: Connection) -> bool:
    return {facts[0] for facts in statuses(conn)} == {"dead"}


@pytest.mark.parametrize(
    ("max_attempts", "innocent", "poison"),
    [
        # It kills its process before the server knows what has begun, or after that.
        (3, {"sleep": 0.05}, {"exit": 0.0}),
        (2, {"sleep": 1.5}, {"exit": 1.2}),
    ],
)
def test_a_job_that_kills_its_worker_takes_no_other_with_it(
    mp: Milepost,
    url: str,
    conn: Connection,
    tmp_path: Path,
    max_attempts: int,
    innocent: dict[str, float],
    poison: dict[str, float],
) -> None:
    history, crashes = tmp_path / "history", 0
    contents = [innocent] * 2 + [poison] + [innocent] * 2
    ids = mp.put(conn, *(Job("c", content, max_attempts=max_attempts) for content in contents))
    while failures(conn) != {ids[2]: ("dead", max_attempts)}:
        with crashing(url, history, len(ids)) as process:
            wait_until(lambda: has_ended(process) or is_over(conn))
            crashes += has_ended(process)
        recover(conn)
        assert crashes <= max_attempts + 2
    assert crashes <= max_attempts + 2
    assert failures(conn) == {ids[2]: ("dead", max_attempts)}
    assert sorted(set(events(history, "end"))) == sorted(set(ids) - {ids[2]})
