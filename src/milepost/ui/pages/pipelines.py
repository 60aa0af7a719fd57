"""Pipelines: their versions, the phases of their batches, and how far a rebuild is."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from milepost.ui.drawn import charts, trends
from milepost.ui.drawn.page import NotFound, Page, PageRoutes, Part, View
from milepost.ui.observed import snapshot
from milepost.ui.pages.dead_letters import letters_part
from milepost.words import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.pipeline.admin import PipelineStatus
    from milepost.ui.drawn.trends import Trend

SECTION = "/pipelines"
BATCHES = 30  # bars of the chart
WATCHED_SECONDS = 1800  # how far back batches are looked for
PACE_SECONDS = 120  # the speed of a rebuild is that of the last two minutes


def listing(view: View) -> Page:
    found = snapshot.pipelines(view.board)
    names = dict.fromkeys(each.name for each in found)
    rows = [_row(view, [each for each in found if each.name == name]) for name in names]
    return Page("Pipelines", [Part("pipelines", "pipelines/list.html", {"rows": rows})], SECTION)


def one(view: View) -> Page:
    name = view.path["name"]
    versions = [each for each in snapshot.pipelines(view.board) if each.name == name]
    if not versions:
        raise NotFound(f"No pipeline {name!r} has run on this log.")
    shown = _shown(versions)
    state = {"name": name, "status": shown, "spark_page": _page(shown), "lag": _lag(view, name)}
    rebuilds = [_rebuild(view, each) for each in versions if each.built_at is None]
    can_roll_back = any(each.built_at and each.version < shown.version for each in versions)
    parts = [
        Part("state", "pipelines/state.html", state),
        Part("batches", "pipelines/batches.html", _batches(view, shown)),
        Part(
            "versions",
            "pipelines/versions.html",
            {"name": name, "versions": versions, "can_roll_back": can_roll_back},
        ),
        Part(
            "rebuild",
            "pipelines/rebuild.html",
            {
                "name": name,
                "rebuilds": rebuilds,
                "can_rebuild": view.rebuilds is not None,
                "outcome": None if view.rebuilds is None else view.rebuilds.outcome(name),
            },
        ),
    ]
    if any(each.dead_letters for each in versions):
        parts.append(letters_part(view, name))
    return Page(name, parts, SECTION)


def _shown(versions: Sequence[PipelineStatus]) -> PipelineStatus:
    """The active version; before the first one is built, the newest."""
    return next((each for each in versions if each.is_active), versions[-1])


def _row(view: View, versions: Sequence[PipelineStatus]) -> dict[str, Any]:
    status = _shown(versions)
    series = snapshot.series("pipeline", status.name, "lag")
    line = trends.line(view.history, series, "Messages behind")
    is_rebuilding = any(each.state == "rebuilding" for each in versions)
    return {
        "status": status,
        "lag": line,
        "versions": len(versions),
        "is_rebuilding": is_rebuilding,
    }


def _page(status: PipelineStatus) -> str | None:
    """Only what is an address: it was written by whoever may run pipelines."""
    page = status.spark_page
    is_running = status.state not in ("stopped", "failed", "silent")
    return page if page and is_running and page.startswith(("http://", "https://")) else None


def _lag(view: View, name: str) -> Trend:
    return trends.trend(view, snapshot.series("pipeline", name, "lag"), "Messages behind")


def _batches(view: View, status: PipelineStatus) -> dict[str, Any]:
    """A driver reports the last batch of each second, and this process keeps what it has seen."""
    names = list(snapshot.own_phases(status))
    series = [
        view.history.seconds(snapshot.phase_series(status.name, name), WATCHED_SECONDS)
        for name in names
    ]
    seen = [values for values, _ in groupby(zip(*series, strict=True))]
    bars = [tuple(ms or 0.0 for ms in values) for values in seen if any(values)]
    if not bars and names:
        bars = [tuple(snapshot.own_phases(status).values())]
    shown = [charts.Bar(f"batch -{len(bars) - 1 - n}", bar) for n, bar in enumerate(bars)]
    drawn = charts.stacked_bars(
        shown[-BATCHES:], names, "Phases of the last batches, in milliseconds", shown=_ms
    )
    return {
        "status": status,
        "chart": drawn,
        "legend": charts.legend(names),
        "bars": min(len(bars), BATCHES),
    }


def _ms(value: float) -> str:
    return f"{value:,.0f} ms"


def _rebuild(view: View, status: PipelineStatus) -> dict[str, Any]:
    """Progress by positions, as the command shows it."""
    log = snapshot.take(view.board).log
    end = log.horizon.position if log is not None and log.horizon is not None else 0
    done = min(status.position or 0, end)
    share = done / end if end else 1.0
    words = f"{share:.0%} of the log is filled in"
    bar = [(words, share, "fill-accent"), (words, 1 - share, "fill-line")]
    return {
        "status": status,
        "words": words,
        "bar": charts.share_bar(bar, words),
        "left": _time_left(view, status, end - done),
    }


def _time_left(view: View, status: PipelineStatus, positions: int) -> str | None:
    """None while its speed is not known yet."""
    series = snapshot.position_series(status.name, status.version)
    values = view.history.seconds(series, PACE_SECONDS)
    known = [(second, value) for second, value in enumerate(values) if value is not None]
    if len(known) < 2 or known[-1][1] <= known[0][1]:
        return None
    pace = (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])
    return duration(positions / pace)


ROUTES: PageRoutes = [("/pipelines", listing), ("/pipelines/{name:path}", one)]
