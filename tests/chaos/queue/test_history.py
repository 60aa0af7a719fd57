from __future__ import annotations

from tests.chaos.queue.history import Limit, Span, spans_of_handlers, too_fast, too_many, too_soon


def span(begin: float, end: float, channel: str = "c") -> Span:
    return Span(int(begin * 100), 1, channel, begin, end)


def test_spans_that_overlap_beyond_the_limit_are_found() -> None:
    spans = [span(0, 2), span(1, 3), span(2, 4), span(0, 9, "free")]
    assert too_many(spans, {"c": Limit(1), "free": Limit()}) == {"c": 2}
    assert too_many(spans, {"c": Limit(2), "free": Limit()}) == {}


def test_releases_within_the_interval_are_found() -> None:
    spans = [span(0, 1), span(0.5, 1), span(2, 3)]
    assert too_soon(spans, {"c": Limit(release_seconds=1.0)}) == {"c": 0.5}
    assert too_soon(spans, {"c": Limit(release_seconds=0.5)}) == {}


def test_jobs_beyond_the_burst_that_come_faster_than_the_rate_are_found() -> None:
    spans = [span(n / 10, 9) for n in range(5)]
    assert too_fast(spans, per_second=10, burst=1) == {}
    assert too_fast(spans, per_second=5, burst=3) == {}
    assert too_fast(spans, per_second=5, burst=2) == {"c": 1}


def test_a_killed_attempt_ends_when_its_lock_expired() -> None:
    lines = ["begin 1 1 c 10.0", "begin 1 2 c 20.0", "end 1 2 c 21.0", "begin 2 1 c 22.0"]
    spans = spans_of_handlers(lines, {(1, 1): 15.0}, now=30.0)
    assert [(s.job, s.attempt, s.end) for s in spans] == [(1, 1, 15.0), (1, 2, 21.0), (2, 1, 30.0)]
