"""Charts as SVG, drawn by the server. Pure. Colours are classes of style.css, sizes are attributes;
every point has a title, which browsers show and screen readers read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

Values = Sequence["float | None"]  # None: not known, a gap in the line
COLOURS = 6
_SPARK_WIDTH, _SPARK_HEIGHT = 120, 24
_MAX_POINTS = 60  # of a sparkline: more are not told apart at its width


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of stacked values, as the phases of a batch."""

    label: str
    values: Sequence[float]


def plain(value: float) -> str:
    """A number for people: 1.2k, 3.4M, 0.25."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def sparkline(values: Values, title: str, shown: Callable[[float], str] = plain) -> Markup:
    """A line without axes, for a row of a table. `title` says what it shows."""
    kept = thinned(values, _MAX_POINTS)
    known = [value for value in kept if value is not None]
    if not known:
        return _svg(_SPARK_WIDTH, _SPARK_HEIGHT, f"{title}: nothing yet", "spark", "")
    top = max(*known, 0.0) or 1.0
    scale = _Scale(len(kept), top, 1.0, _SPARK_WIDTH - 1.0, 2.0, _SPARK_HEIGHT - 2.0)
    words = f"{title}: {shown(known[-1])} now, at most {shown(max(known))}"
    body = "".join([*_lines(kept, scale), *_points(kept, scale, shown)])
    return _svg(_SPARK_WIDTH, _SPARK_HEIGHT, words, "spark", body)


def area(
    values: Values,
    title: str,
    *,
    labels: Sequence[str] | None = None,
    width: int = 560,
    height: int = 140,
    shown: Callable[[float], str] = plain,
) -> Markup:
    """A filled line with axes. `labels`: of the points, for their titles and the lower axis."""
    known = [value for value in values if value is not None]
    ticks = nice_ticks(max(known, default=0.0))
    scale = _Scale(len(values), ticks[-1], 44.0, width - 8.0, 8.0, height - 20.0)
    names = list(labels or [""] * len(values))
    body = "".join([
        *_grid(ticks, scale, shown),
        *_lines(values, scale),
        *_points(values, scale, shown, names),
        *_foot(names, scale),
    ])  # fmt: skip
    now = f": {shown(known[-1])} now, at most {shown(max(known))}" if known else ": nothing yet"
    return _svg(width, height, title + now, "chart", body)


def stacked_bars(
    bars: Sequence[Bar],
    names: Sequence[str],
    title: str,
    *,
    width: int = 560,
    height: int = 160,
    shown: Callable[[float], str] = plain,
) -> Markup:
    """One bar beside the other; `names` are those of the values that are stacked in each."""
    tops = [sum(bar.values) for bar in bars]
    ticks = nice_ticks(max(tops, default=0.0))
    scale = _Scale(len(bars), ticks[-1], 52.0, width - 8.0, 8.0, height - 20.0)
    step = (scale.right - scale.left) / max(len(bars), 1)
    body = [*_grid(ticks, scale, shown)]
    for number, bar in enumerate(bars):
        x, below = scale.left + number * step + step * 0.1, 0.0
        for index, value in enumerate(bar.values):
            upper, lower = scale.y(below + value), scale.y(below)
            words = f"{bar.label} {names[index]}: {shown(value)}".strip()
            body.append(_box(x, upper, min(step * 0.8, 40.0), lower - upper, index, words))
            below += value
    return _svg(width, height, title, "chart", "".join(body))


def legend(names: Sequence[str]) -> Markup:
    """Which colour is which of the stacked values."""
    box = '<rect width="10" height="10" class="s{}"/>'
    key = f'<svg width="10" height="10" aria-hidden="true">{box}</svg>'
    items = [
        f"<span>{key.format(number % COLOURS)}{escape(name)}</span>"
        for number, name in enumerate(names)
    ]
    return Markup('<p class="legend">{}</p>').format(Markup("".join(items)))  # noqa: S704 - escaped


def share_bar(
    parts: Sequence[tuple[str, float, str]], title: str, *, width: int = 560, height: int = 16
) -> Markup:
    """One horizontal bar: (label, share of the whole from 0 to 1, class) after each other."""
    body, x = [], 0.0
    for label, share, class_ in parts:
        wide = max(0.0, min(share, 1.0)) * width
        body.append(
            f'<rect x="{x:.1f}" y="0" width="{wide:.1f}" height="{height}" '
            f'class="{escape(class_)}"><title>{escape(label)}</title></rect>'
        )
        x += wide
    return _svg(width, height, title, "chart", "".join(body))


def nice_ticks(top: float, count: int = 4) -> list[float]:
    """From 0 to a round number that is not below `top`, in round steps."""
    if top <= 0 or not math.isfinite(top):
        return [0.0, 1.0]
    rough = top / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * 0.999)
    return [step * number for number in range(math.ceil(round(top / step, 6)) + 1)]


def thinned(values: Values, count: int) -> list[float | None]:
    """At most `count` values: the highest of each group, so that no peak is lost."""
    size = math.ceil(len(values) / count) or 1
    groups = [values[start : start + size] for start in range(0, len(values), size)]
    return [max((v for v in group if v is not None), default=None) for group in groups]


@dataclass(frozen=True, slots=True)
class _Scale:
    """From the number of a point and its value to the place in the drawing."""

    count: int
    top: float
    left: float
    right: float
    upper: float
    lower: float

    def x(self, number: int) -> float:
        return self.left + (self.right - self.left) * number / max(self.count - 1, 1)

    def y(self, value: float) -> float:
        return self.lower - (self.lower - self.upper) * min(value / self.top, 1.0)


def _lines(values: Values, scale: _Scale) -> list[str]:
    """One line and area for each run of known values."""
    found: list[str] = []
    for is_known, run in groupby(enumerate(values), key=lambda pair: pair[1] is not None):
        if not is_known:
            continue
        spots = [(scale.x(number), scale.y(value or 0.0)) for number, value in run]
        if len(spots) == 1:  # a line of one point would not be visible
            spots.append((spots[0][0] + 1.0, spots[0][1]))
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
        first, last = spots[0][0], spots[-1][0]
        closed = f"M{first:.1f} {scale.lower:.1f}L{line}L{last:.1f} {scale.lower:.1f}Z"
        found.append(f'<path class="area" d="{closed}"/><path class="line" d="M{line}"/>')
    return found


def _points(
    values: Values, scale: _Scale, shown: Callable[[float], str], labels: Sequence[str] = ()
) -> list[str]:
    """Invisible columns that are wide enough to be hit by a pointer."""
    wide = (scale.right - scale.left) / max(len(values), 1)
    tall = scale.lower - scale.upper
    return [
        f'<rect class="point" x="{scale.x(n) - wide / 2:.1f}" y="{scale.upper:.1f}" '
        f'width="{wide:.1f}" height="{tall:.1f}">'
        f"<title>{escape(' '.join([*labels[n : n + 1], shown(value)]).strip())}</title></rect>"
        for n, value in enumerate(values)
        if value is not None
    ]


def _grid(ticks: Sequence[float], scale: _Scale, shown: Callable[[float], str]) -> list[str]:
    return [
        f'<line class="grid" x1="{scale.left:.1f}" x2="{scale.right:.1f}" y1="{scale.y(tick):.1f}" '
        f'y2="{scale.y(tick):.1f}"/><text x="{scale.left - 6:.1f}" y="{scale.y(tick) + 4:.1f}" '
        f'text-anchor="end">{escape(shown(tick))}</text>'
        for tick in ticks
    ]


def _foot(labels: Sequence[str], scale: _Scale) -> list[str]:
    """The first, the middle and the last label: more would overlap."""
    if not any(labels):
        return []
    places = {0: "start", len(labels) // 2: "middle", len(labels) - 1: "end"}
    return [
        f'<text x="{scale.x(number):.1f}" y="{scale.lower + 15:.1f}" text-anchor="{anchor}">'
        f"{escape(labels[number])}</text>"
        for number, anchor in places.items()
    ]


def _box(x: float, y: float, width: float, height: float, colour: int, title: str) -> str:
    return (
        f'<rect class="s{colour % COLOURS}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{max(height, 0.0):.1f}"><title>{escape(title)}</title></rect>'
    )


def _svg(width: int, height: int, title: str, class_: str, body: str) -> Markup:
    """The title is the first child: it names the whole drawing."""
    return Markup(  # noqa: S704 - all texts in it were escaped
        f'<svg class="{class_}" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{escape(title)}</title>{body}</svg>'
    )
