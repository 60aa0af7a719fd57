"""Everything at a glance: the health, and a row for all that works, the broken first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from milepost.ui.drawn import trends
from milepost.ui.drawn.page import Page, PageRoutes, Part, View
from milepost.ui.observed import snapshot
from milepost.ui.observed.snapshot import LastError, depth_of, series
from milepost.ui.pages.log import holders
from milepost.words import count, stated

if TYPE_CHECKING:
    from milepost.log.diagnosis import Problem
    from milepost.observe import ChannelGauges, PipelineGauges, ProcessorGauges
    from milepost.queue.admin import ChannelStatus
    from milepost.ui.observed.checkup import Result
    from milepost.ui.observed.history import History

SHOWN_CHANNELS = 25  # the page of the queue has more
BROKEN = ("failed", "silent")
STRUGGLING = ("retrying", "reconnecting", "waiting", "paused", "held")
# Where a problem of an area is looked at and repaired.
REPAIRED_AT = {
    "horizon": "/log", "log": "/log", "processors": "/processors", "claims": "/processors",
    "pipelines": "/pipelines", "queue": "/queue", "schedules": "/schedules",
}  # fmt: skip
Errors = Mapping[tuple[str, int], LastError]


@dataclass(frozen=True, slots=True)
class Row:
    """Something that works, and how far behind it is. `lag_seconds` is None where nothing waits."""

    path: str
    name: str
    state: str
    lag: int
    is_lag_exact: bool
    lag_seconds: float | None
    rate: float
    spark: Markup
    trouble: str | None = None
    notes: tuple[tuple[str, str], ...] = ()  # a path and what it leads to; an empty path: no link
    channel_rank: int | None = None

    @property
    def rank(self) -> tuple[int, str]:
        """By how much it needs somebody, and not by its lag: rows that jump cannot be read."""
        if self.channel_rank is not None:
            return self.channel_rank, self.name
        if self.state in BROKEN:
            return 0, self.name
        has_dead = any(path for path, _ in self.notes)
        return (1 if self.trouble or has_dead or self.state in STRUGGLING else 2), self.name


def overview(view: View) -> Page:
    found, errors = snapshot.take(view.board), snapshot.last_errors(view.board)
    queue = found.queue
    first = [] if queue is None else [*queue.channels]
    more = 0 if queue is None else queue.channel_count - min(len(first), SHOWN_CHANNELS)
    channels = [_channel_row(each, view.history) for each in first[:SHOWN_CHANNELS]]
    followers = [_processor_row(each, errors, view.history) for each in found.processors]
    active = [each for each in found.pipelines if each.is_active or each.progress is not None]
    pipelines = [_pipeline_row(each, errors, view.history) for each in active]
    return Page(
        "Overview",
        [
            Part("health", "overview/health.html", health_context(view)),
            _rows("Processors", followers, "messages behind", "messages/s"),
            _rows("Pipelines", pipelines, "messages behind", "rows/s"),
            _rows("Queue", channels, "jobs due or running", "jobs/s", more),
        ],
    )


def _rows(title: str, rows: Iterable[Row], lag: str, rate: str, more: int = 0) -> Part:
    ordered = sorted(rows, key=lambda row: row.rank)
    context = {"title": title, "rows": ordered, "lag": lag, "rate": rate, "more": more}
    return Part(title.lower(), "overview/rows.html", context)


def health_context(view: View) -> dict[str, Any]:
    """The checks of the doctor, each problem with the page where it is repaired."""
    result: Result | None = view.checkup.latest()
    report = None if result is None else result.report
    problems = [] if report is None else report.problems
    is_held = any(problem.area == "horizon" for problem in problems)
    return {
        "is_known": result is not None,
        "error": None if result is None else result.error,
        "problems": [(problem, _page_of(problem)) for problem in problems],
        "holders": holders(view) if is_held else [],
        "checks": [] if report is None else [(c.name, c.state, c.detail) for c in report.checks],
    }


def _page_of(problem: Problem) -> str | None:
    return REPAIRED_AT.get(problem.area)


def _processor_row(status: ProcessorGauges, errors: Errors, history: History) -> Row:
    letters = f"/dead-letters?processor={quote(status.name)}"
    notes = (
        ("", f"v{status.version}" if status.version > 1 else ""),
        (letters, count(status.dead_letters, "dead letter") if status.dead_letters else ""),
        (letters, count(status.parked_keys, "parked key") if status.parked_keys else ""),
    )
    return Row(
        f"/processors/{status.name}",
        status.name,
        status.state,
        status.lag_messages,
        status.is_lag_exact,
        status.lag_seconds if status.lag_messages else None,
        status.rate,
        trends.line(history, series("processor", status.name, "lag"), "Messages behind"),
        _trouble(status, errors),
        tuple(note for note in notes if note[1]),
    )


def _pipeline_row(status: PipelineGauges, errors: Errors, history: History) -> Row:
    letters = f"/dead-letters?processor={quote(status.name)}"
    progress = "" if status.progress is None else f", {status.progress:.0%} filled in"
    notes = (
        ("", f"version {status.version}{progress}"),
        (letters, count(status.dead_letters, "dead letter") if status.dead_letters else ""),
    )
    return Row(
        f"/pipelines/{status.name}",
        status.name,
        status.state,
        status.lag_messages,
        status.is_lag_exact,
        status.lag_seconds if status.lag_messages else None,
        status.rows_per_second,
        trends.line(history, _pipeline_series(status), "Messages behind"),
        _trouble(status, errors),
        tuple(note for note in notes if note[1]),
    )


def _pipeline_series(status: PipelineGauges) -> str:
    """Of a rebuild, no lag is kept."""
    return series("pipeline", status.name, "lag") if status.is_active else ""


def _channel_row(channel: ChannelGauges, history: History) -> Row:
    dead = (f"/queue/{quote(str(channel.name))}?status=dead", f"{stated(channel, 'dead')} dead")
    return Row(
        f"/queue/{channel.name}",
        str(channel.name),
        channel_state(channel),
        depth_of(channel),
        not {"ready", "running"}.intersection(channel.estimated),
        channel.oldest_due_seconds,
        channel.rate,
        trends.line(history, series("channel", str(channel.name), "depth"), "Jobs due or running"),
        None,
        (dead,) if channel.dead else (),
        channel.rank,
    )


def channel_state(channel: ChannelGauges | ChannelStatus) -> str:
    """`waiting`: jobs are due, and nobody runs them."""
    if channel.is_paused:
        return "paused"
    if channel.running:
        return "running"
    return "waiting" if channel.ready or channel.overdue else "idle"


def _trouble(status: ProcessorGauges | PipelineGauges, errors: Errors) -> str | None:
    """The first line of the last error, unless it is over."""
    found = errors.get((status.name, status.version))
    if found is None or found.is_over(status):
        return None
    return next((line for line in found.last_error.splitlines() if line.strip()), "")[:200]


ROUTES: PageRoutes = [("/", overview)]
