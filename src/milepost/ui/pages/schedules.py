"""Schedules: when they tick next, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from milepost.queue.schedules.admin import list_schedules
from milepost.ui.drawn import wording
from milepost.ui.drawn.page import Page, PageRoutes, Part, View

if TYPE_CHECKING:
    from milepost.queue.schedules.admin import ScheduleStatus

SECTION = "/schedules"
TICKS = 3


def listing(view: View) -> Page:
    found = view.board.look("schedules", list_schedules)
    now = datetime.now(UTC)
    rows = [_row(schedule, now) for schedule in found]
    return Page("Schedules", [Part("schedules", "schedules/list.html", {"rows": rows})], SECTION)


def _row(schedule: ScheduleStatus, now: datetime) -> dict[str, Any]:
    times = [] if schedule.is_paused else schedule.next_ticks(TICKS)
    return {
        "of": schedule,
        "when": schedule.when if schedule.every is None else wording.every(schedule.every),
        "state": _state(schedule),
        "ticks": wording.ticks(times, now, schedule.timezone),
    }


def _state(schedule: ScheduleStatus) -> str:
    if schedule.is_paused:
        return "paused"
    if schedule.is_failing:
        return "failed"
    return "orphaned" if schedule.is_orphaned else "ok"


ROUTES: PageRoutes = [("/schedules", listing)]
