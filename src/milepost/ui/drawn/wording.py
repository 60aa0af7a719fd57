"""How the dashboard writes times, ticks and JSON. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from milepost.words import count, duration

_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_INDENT = "  "


def moment(at: datetime | str | None) -> str:
    """A time in UTC, so that people at two places read the same. Some times of PostgreSQL are
    beyond Python's: they are given as text."""
    if at is None or isinstance(at, str):
        return at or "–"  # noqa: RUF001 - an en dash
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def ticks(times: Sequence[datetime], now: datetime, timezone: str | None) -> list[str]:
    """The next ticks of a schedule in words, in its own time zone: `in 34 min, today at 14:00:00`,
    `tomorrow at 14:00:00`, `Fri 20 Nov at 14:00:00`."""
    zone = _zone(timezone)
    in_words = [f"{_day(at, now, zone)} at {at.astimezone(zone):%H:%M:%S}" for at in times]
    if in_words:
        in_words[0] = f"{_distance(times[0], now)}, {in_words[0]}"
    return in_words


def every(period: timedelta) -> str:
    """`every 1 day`, `every 90 min`: in the largest unit that has a whole number of them."""
    seconds = period.total_seconds()
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            return f"every {count(int(seconds // size), unit)}"
    return f"every {seconds:g} s"


def pretty(raw: bytes | None) -> str:
    """JSON, indented, with its numbers as they are written; what is not JSON as it is."""
    if raw is None:
        return ""
    text = raw.decode(errors="backslashreplace")
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return "".join(_indented(_MARK.findall(text)))


def _indented(marks: Sequence[str]) -> Iterator[str]:
    depth = 0
    for mark, following in pairwise([*marks, ""]):
        is_empty = mark in "{[" and following in ("}", "]")
        depth += (mark in "{[") - (following in ("}", "]"))
        yield f"{mark} " if mark == ":" else mark
        if (mark in "{[," or following in ("}", "]")) and not is_empty:
            yield "\n" + _INDENT * depth


def _distance(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"in {duration(seconds)}" if seconds >= 0 else f"due for {duration(-seconds)}"


def _day(at: datetime, now: datetime, zone: tzinfo) -> str:
    there = at.astimezone(zone)
    days = (there.date() - now.astimezone(zone).date()).days
    names = {-1: "yesterday", 0: "today", 1: "tomorrow"}
    return names.get(days) or f"{there:%a} {there.day} {there:%b %Y}"


def _zone(name: str | None) -> tzinfo:
    try:
        return UTC if name is None else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):  # this host does not know it
        return UTC
