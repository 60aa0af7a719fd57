"""The log as one bar: what is in files, what can be read, and what waits above the horizon. Pure.

The widths are not to scale: three messages above the horizon of ten million must be visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from milepost.words import count, duration

if TYPE_CHECKING:
    from milepost.log.diagnosis import Holder
    from milepost.ui.observed.log_reads import Edges

_WIDTH, _HEIGHT = 720, 96
_TOP, _TALL = 34, 26
_MARGIN = 24  # to the right of the bar
_MARKS = 6  # transactions that are drawn; the list below has all


def draw_log(edges: Edges) -> Markup:
    is_held = bool(edges.holders) or edges.above > 0
    left = 170 if edges.archived else 4
    right = _WIDTH - 250 if is_held else _WIDTH - _MARGIN
    body = [*_files(edges, left), *_readable(edges, left, right)]
    if is_held:
        body += _waiting(edges, right)
    body.append(_text(_WIDTH - 4, _TOP + _TALL + 18, f"head {edges.newest or ''}", "end"))
    return Markup(  # noqa: S704 - all texts in it were escaped
        f'<svg class="chart" role="img" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}"><title>{escape(described(edges))}</title>'
        f"{''.join(body)}</svg>"
    )


def described(edges: Edges) -> str:
    """The drawing in words."""
    parts = [f"The newest message is {edges.newest}" if edges.newest else "The log is empty"]
    if edges.horizon is not None:
        parts.append(f"the horizon is {edges.horizon}")
    if edges.above:
        parts.append(f"{count(edges.above, 'message')} above it wait")
    if edges.holders:
        parts.append(f"{count(len(edges.holders), 'open transaction')} may hold it back")
    if edges.archived:
        parts.append(f"up to {edges.archived} the log is in the archive")
    return ", ".join(parts) + "."


def _files(edges: Edges, left: int) -> list[str]:
    if edges.archived is None:
        return []
    return [
        _bar(4, left - 4, "s4", f"In the archive, up to {edges.archived}"),
        _line(left, "stroke-good"),
        _text(left, 14, f"archived up to {edges.archived}", "middle"),
        _text(4, _TOP + _TALL + 18, "files", "start"),
    ]


def _readable(edges: Edges, left: int, right: int) -> list[str]:
    about = "" if edges.is_exact else "about "
    words = f"In the table: {about}{count(edges.messages, 'message')}"
    middle = (left + right) // 2
    return [
        _bar(left, right - left, "s0", words),
        _text(middle, _TOP + _TALL + 18, f"{about}{count(edges.messages, 'message')}", "middle"),
        _line(right, "stroke-accent"),
        _horizon(edges, right),
    ]


def _horizon(edges: Edges, right: int) -> str:
    """Over its line; beside the end of the drawing, where half of it would be outside."""
    words = f"horizon {edges.horizon or 'unknown'}"
    if right == _WIDTH - _MARGIN:
        return _text(_WIDTH - 4, 14, words, "end", "strong")
    return _text(right, 14, words, "middle", "strong")


def _waiting(edges: Edges, right: int) -> list[str]:
    words = f"{count(edges.above, 'message')} above the horizon"
    wide = _WIDTH - _MARGIN - right
    marks = edges.holders[:_MARKS]
    step = wide / (len(marks) + 1)
    return [
        _bar(right, wide, "s2", words),
        *(_mark(right + step * (number + 1), each) for number, each in enumerate(marks)),
        _text(_WIDTH - _MARGIN, 28, words if edges.above else "open transactions", "end", "bad"),
    ]


def _mark(x: float, holder: Holder) -> str:
    age = "" if holder.age_seconds is None else f", open for {duration(holder.age_seconds)}"
    who = f"pid {holder.pid}" if holder.prepared is None else f"prepared {holder.prepared}"
    return (
        f'<circle class="fill-bad" cx="{x:.0f}" cy="{_TOP + _TALL / 2:.0f}" r="6">'
        f"<title>{escape(who + age)}</title></circle>"
    )


def _bar(x: float, width: float, class_: str, title: str) -> str:
    return (
        f'<rect class="{class_}" x="{x:.0f}" y="{_TOP}" width="{max(width, 0):.0f}" '
        f'height="{_TALL}" rx="3"><title>{escape(title)}</title></rect>'
    )


def _line(x: float, class_: str) -> str:
    return f'<path class="{class_}" stroke-width="2" d="M{x:.0f} {_TOP - 14}V{_TOP + _TALL + 6}"/>'


def _text(x: float, y: float, words: str, anchor: str, class_: str = "") -> str:
    return (
        f'<text class="{class_}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )
