"""What metrics() says of the queue, against a count by hand: a number is exact, or it is named in
`estimated`, and nothing that has jobs looks idle."""

from __future__ import annotations

from random import Random

import pytest

from milepost.db import Connection
from milepost.observe import ChannelGauges, QueueGauges
from milepost.observe.metrics import from_document
from milepost.queue.admin import list_channels
from milepost.sql import LogOrder

ALL = 2**31 - 1
COUNTS = ("ready", "scheduled", "waiting", "running", "dead", "overdue")


@pytest.fixture
def order() -> LogOrder:
    """The queue does not know of the log's order."""
    return "append"


def fill(conn: Connection, channel: str, status: str, number: int, due: str = "-1 hour") -> None:
    """Jobs that are due, or were put, at that time from now. %s in a name is the number."""
    conn.execute(
        """insert into milepost.jobs (channel, content, run_at, status, locked_until, taken)
        select format(%(channel)s, number), '{}', now() + %(due)s::interval,
          %(status)s::milepost.job_status,
          case when %(status)s = 'running' then now() + interval '1 hour' end,
          case when %(status)s = 'running' then number end
        from generate_series(1, %(number)s) as number""",
        {"channel": channel, "status": status, "number": number, "due": due},
    )


def look(conn: Connection, max_channels: int = 50, max_counted: int | None = None) -> QueueGauges:
    (document,) = conn.execute(
        "select milepost.metrics(array['queue'], %s, %s)", (max_channels, max_counted)
    ).fetchone() or ({},)
    queue = from_document(document).queue
    assert queue is not None
    return queue


def counted(conn: Connection) -> dict[str, dict[str, int]]:
    """By hand: of each channel with jobs."""
    rows = conn.execute(
        """select channel,
          count(*) filter (where status = 'ready'), count(*) filter (where status = 'scheduled'),
          count(*) filter (where status = 'waiting'), count(*) filter (where status = 'running'),
          count(*) filter (where status = 'dead'),
          count(*) filter (where status = 'scheduled' and run_at <= now())
        from milepost.jobs where status not in ('done', 'cancelled') group by channel"""
    ).fetchall()
    return {channel: dict(zip(COUNTS, numbers, strict=True)) for channel, *numbers in rows}


def said(gauges: QueueGauges | ChannelGauges) -> dict[str, int]:
    return {name: getattr(gauges, name) for name in COUNTS}


def crowd(conn: Connection, jobs: int = 6000) -> None:
    """Ready jobs in 300 channels, more than are counted."""
    for number in range(300):
        fill(conn, f"crowd-{number:03}", "ready", jobs // 300, "-1 second")


def test_every_number_of_a_listed_channel_is_exact(conn: Connection) -> None:
    crowd(conn)
    fill(conn, "deep", "ready", 1003, "-1 second")
    fill(conn, "broken", "dead", 49)
    fill(conn, "late", "scheduled", 954)
    fill(conn, "zz-late", "scheduled", 6000)
    fill(conn, "later", "scheduled", 5000, "1 hour")
    expected, queue = counted(conn), look(conn)
    assert [each.name for each in queue.channels][:3] == ["broken", "zz-late", "late"]
    assert "deep" in {each.name for each in queue.channels}
    for each in queue.channels:
        assert (each.name, said(each), each.estimated) == (each.name, expected[str(each.name)], [])
    assert set(queue.estimated) == {"ready"}
    assert (queue.dead, queue.overdue, queue.scheduled) == (49, 6954, 11954)
    assert queue.channel_count == 305
    assert queue.other.estimated == ["ready"]
    assert queue.ready == sum(each.ready for each in queue.channels) + queue.other.ready


def test_a_few_channels_are_exact_however_deep(conn: Connection) -> None:
    """And so are the sums."""
    for name, number in (("a", 9000), ("b", 30_000), ("c", 10)):
        fill(conn, name, "ready", number)
        fill(conn, name, "waiting", number)
    queue = look(conn)
    assert (queue.ready, queue.waiting, queue.estimated) == (39_010, 39_010, [])
    assert {each.name: each.ready for each in queue.channels} == {"a": 9000, "b": 30_000, "c": 10}


@pytest.mark.parametrize("seed", range(6))
def test_what_is_not_exact_is_named(conn: Connection, seed: int) -> None:
    """In random states of 230 channels."""
    random = Random(seed)
    for number in range(230):
        for status, due in (
            ("ready", "-1 minute"), ("scheduled", "-1 second"), ("scheduled", "1 hour"),
            ("waiting", "0"), ("running", "0"), ("dead", "0"), ("done", "0"),
        ):  # fmt: skip
            if random.random() < 0.4:
                fill(conn, f"c{number}", status, int(random.paretovariate(0.8)) % 400, due)
    expected = counted(conn)
    for max_channels, max_counted in ((50, 100), (5, 300), (ALL, 100), (ALL, ALL)):
        queue = look(conn, max_channels, max_counted)
        assert len(queue.channels) == min(max_channels, len(expected))
        assert queue.channel_count == len(expected)
        _check(queue, expected)
        if max_counted == ALL or max_channels == 50:
            assert all(not each.estimated for each in queue.channels)


def _check(queue: QueueGauges, expected: dict[str, dict[str, int]]) -> None:
    ranks = [each.rank for each in queue.channels]
    assert ranks == sorted(ranks)
    for each in queue.channels:
        assert (each.rank == 0) == (each.dead > 0)
        for name, number in expected[str(each.name)].items():
            stated = getattr(each, name)
            if name in each.estimated:
                assert name in ("ready", "scheduled", "waiting")
                assert stated >= min(number, 1)
            else:
                assert (each.name, name, stated) == (each.name, name, number)
        due = expected[str(each.name)]["ready"] + expected[str(each.name)]["overdue"]
        assert (each.oldest_due_seconds is not None) == (due > 0)
    for name in COUNTS:
        total = sum(channel[name] for channel in expected.values())
        if name not in queue.estimated:
            assert (name, getattr(queue, name)) == (name, total)


def test_more_than_a_hundred_thousand_dead_jobs_hide_no_channel(conn: Connection) -> None:
    fill(conn, "a", "dead", 100_001)
    fill(conn, "b", "dead", 7)
    fill(conn, "c", "ready", 1)
    a, b, c = look(conn).channels
    assert [(each.name, each.dead, each.rank) for each in (a, b, c)] == [
        ("a", 100_001, 0), ("b", 7, 0), ("c", 0, 1),
    ]  # fmt: skip
    (named,) = list_channels(conn, "milepost", name="b", max_counted=None)
    assert (named.dead, named.estimated) == (7, [])


def test_a_channel_by_its_name_is_exact(conn: Connection) -> None:
    """However many others there are."""
    crowd(conn, 9000)
    for name in ("crowd-000", "crowd-299"):
        (status,) = list_channels(conn, "milepost", name=name, max_counted=None)
        assert (status.ready, status.estimated) == (30, [])


def test_a_sample_is_never_the_same_each_time(conn: Connection) -> None:
    """Or what it misses would always be missing."""
    for _ in range(30):
        fill(conn, "c%s", "ready", 1000)
    assert len({look(conn, 0).ready for _ in range(5)}) > 1
    assert look(conn, 0, ALL).ready == 30_000
