"""How a number has changed: a small line for a row, or a chart of the last minutes, hour or day.

What was not noted yet, because this process has just started, is left out: a line uses the whole
width. A chart covers a minute at least."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.ui.drawn import charts
from milepost.words import duration

if TYPE_CHECKING:
    from markupsafe import Markup

    from milepost.ui.drawn.charts import Values
    from milepost.ui.drawn.page import View
    from milepost.ui.observed.history import History

LINE_SECONDS = 300
SHORTEST = 60  # steps
POINTS = 120


@dataclass(frozen=True, slots=True)
class Span:
    """How far back a chart goes."""

    key: str
    label: str
    steps: int
    step_seconds: int

    def values(self, history: History, series: str) -> Values:
        read = history.seconds if self.step_seconds == 1 else history.minutes
        return read(series, self.steps)


SPANS = (
    Span("10m", "10 minutes", 600, 1),
    Span("1h", "1 hour", 3600, 1),
    Span("1d", "1 day", 1440, 60),
)


@dataclass(frozen=True, slots=True)
class Trend:
    """A chart, and where others of the same page are: (label, query value, is this one)."""

    chart: Markup
    spans: tuple[tuple[str, str, bool], ...]


def line(history: History, series: str, what: str) -> Markup:
    values = since_known(history.seconds(series, LINE_SECONDS))
    return charts.sparkline(values, f"{what}, last {duration(len(values))}")


def trend(view: View, series: str, what: str) -> Trend:
    """Of the span that the query names."""
    wanted = next((span for span in SPANS if span.key == view.query.get("span")), SPANS[0])
    values = since_known(wanted.values(view.history, series))
    kept = charts.thinned(values, POINTS)
    group = (math.ceil(len(values) / POINTS) or 1) * wanted.step_seconds
    labels = [_ago((len(kept) - 1 - number) * group) for number in range(len(kept))]
    chart = charts.area(kept, f"{what}, the last {wanted.label}", labels=labels)
    return Trend(chart, tuple((span.label, span.key, span is wanted) for span in SPANS))


def since_known(values: Values) -> Values:
    known = next((n for n, value in enumerate(values) if value is not None), len(values))
    return values[min(known, max(len(values) - SHORTEST, 0)) :]


def _ago(seconds: int) -> str:
    return f"{duration(seconds)} ago" if seconds else "now"
