"""Everything at a glance: the health, and a row for all that works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from milepost.ui import charts, snapshot
from milepost.ui.page import Page, PageRoutes, Part, View
from milepost.ui.snapshot import Snapshot, depth_of, series

if TYPE_CHECKING:
    from milepost.pipeline.admin import PipelineStatus
    from milepost.processors.admin import ProcessorStatus
    from milepost.queue.admin import ChannelStatus
    from milepost.ui.checkup import Result
    from milepost.ui.history import History

SHOWN_CHANNELS = 25  # the deepest ones; the page of the queue has all
SPARK_SECONDS = 300


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
    note: str = ""


def overview(view: View) -> Page:
    found = snapshot.take(view.board)
    deepest = sorted(found.channels, key=lambda each: (-depth_of(each), each.name))
    channels = [_channel_row(each, view.history) for each in deepest[:SHOWN_CHANNELS]]
    return Page(
        "Overview",
        [
            Part("health", "overview/health.html", health_context(view.checkup.latest())),
            Part("processors", "overview/rows.html", {
                "title": "Processors", "rows": _processor_rows(found, view.history),
                "lag": "messages behind", "more": 0, "rate": "messages/s",
            }),
            Part("pipelines", "overview/rows.html", {
                "title": "Pipelines", "rows": _pipeline_rows(found, view.history),
                "lag": "messages behind", "more": 0, "rate": "rows/s",
            }),
            Part("channels", "overview/rows.html", {
                "title": "Queue", "rows": channels, "lag": "jobs due or running",
                "more": len(deepest) - len(channels), "rate": "jobs/s",
            }),
        ],
    )  # fmt: skip


def health_context(result: Result | None) -> dict[str, object]:
    """The checks of the doctor, without what changes with each look and says nothing."""
    report = None if result is None else result.report
    return {
        "is_known": result is not None,
        "error": None if result is None else result.error,
        "problems": [] if report is None else report.problems,
        "checks": [] if report is None else [(c.name, c.state, c.detail) for c in report.checks],
    }


def _processor_rows(found: Snapshot, history: History) -> list[Row]:
    return [_processor_row(each, history) for each in found.processors]


def _processor_row(status: ProcessorStatus, history: History) -> Row:
    asides = [(status.dead_letters, "dead letter"), (status.parked_keys, "parked key")]
    note = ", ".join(f"{n:,} {noun}{'s' if n > 1 else ''}" for n, noun in asides if n)
    return Row(
        f"/processors/{status.name}",
        status.name,
        status.state,
        status.lag_messages,
        status.is_lag_exact,
        status.lag_seconds if status.lag_messages else None,
        status.rate,
        _spark(history, series("processor", status.name, "lag"), "Messages behind"),
        _trouble(status),
        note,
    )


def _pipeline_rows(found: Snapshot, history: History) -> list[Row]:
    return [
        Row(
            f"/pipelines/{each.name}",
            each.name,
            each.state,
            each.lag_messages,
            each.is_lag_exact,
            each.lag_seconds if each.lag_messages else None,
            each.rows_per_second,
            _spark(history, series("pipeline", each.name, "lag"), "Messages behind"),
            _trouble(each),
            f"version {each.version}",
        )
        for each in found.active_pipelines()
    ]


def _channel_row(channel: ChannelStatus, history: History) -> Row:
    state = "paused" if channel.is_paused else "running" if channel.running else "idle"
    dead = f"{channel.dead:,} dead" if channel.dead else ""
    return Row(
        f"/queue/{channel.name}",
        channel.name,
        state,
        depth_of(channel),
        True,
        channel.oldest_due_seconds,
        channel.rate,
        _spark(history, series("channel", channel.name, "depth"), "Jobs due or running"),
        None,
        dead,
    )


def _trouble(status: ProcessorStatus | PipelineStatus) -> str | None:
    """The last error, unless it is over."""
    if status.last_error is None or status.is_recovered:
        return None
    return next((line for line in status.last_error.splitlines() if line.strip()), "")[:200]


def _spark(history: History, name: str, what: str) -> Markup:
    return charts.sparkline(history.seconds(name, SPARK_SECONDS), f"{what}, last 5 minutes")


ROUTES: PageRoutes = [("/", overview)]
