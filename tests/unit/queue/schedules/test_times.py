"""When schedules tick: intervals, cron expressions, and what happens when clocks change.

In 2030, Berlin's clocks go from 02:00 to 03:00 on March 31 (01:00 UTC), and from 03:00 to 02:00 on
October 27 (01:00 UTC).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import Cron, Job, Repeat
from milepost.errors import InvalidJob, ReservedChannel
from milepost.queue.schedules import Schedule, Times
from milepost.queue.schedules.times import from_columns, to_columns

SPRING = datetime(2030, 3, 31, tzinfo=UTC)
AUTUMN = datetime(2030, 10, 27, tzinfo=UTC)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]  # of a date and a time


def ticks(times: Times, after: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < count:
        found.append(times.next(after, found[-1] if found else after))
    return found


def in_berlin(expression: str, after: datetime, count: int) -> list[str]:
    """As the times of day in UTC."""
    found = ticks(Cron(expression, timezone="Europe/Berlin"), after, count)
    return [f"{tick:%d %H:%M}" for tick in found]


def test_an_interval_is_counted_from_its_registration() -> None:
    begun = utc(2030, 1, 1)
    every = Repeat(timedelta(minutes=7))
    assert ticks(every, begun, 3) == [begun + n * timedelta(minutes=7) for n in (1, 2, 3)]
    assert every.next(begun, begun + timedelta(minutes=20)) == begun + timedelta(minutes=21)
    assert every.next(begun, begun - timedelta(days=1)) == begun + timedelta(minutes=7)


@given(
    every=st.timedeltas(timedelta(microseconds=1), timedelta(days=400)),
    passed=st.timedeltas(timedelta(0), timedelta(days=20_000)),
)
def test_an_interval_has_no_gap_and_no_repetition(every: timedelta, passed: timedelta) -> None:
    begun = utc(2000, 1, 1)
    found = Repeat(every).next(begun, begun + passed)
    assert found - every <= begun + passed < found
    assert (found - begun) % every == timedelta(0)


def test_cron_follows_the_clock_of_its_time_zone() -> None:
    at_three = Cron("0 3 * * *", timezone="Europe/Berlin")
    winter, summer = utc(2030, 1, 15, 12), utc(2030, 7, 15, 12)
    assert at_three.next(winter, winter) == utc(2030, 1, 16, 2)
    assert at_three.next(summer, summer) == utc(2030, 7, 16, 1)


def test_six_fields_have_seconds_first() -> None:
    start = utc(2030, 1, 1)
    found = ticks(Cron("*/20 * * * * *"), start, 4)
    assert [(tick - start).total_seconds() for tick in found] == [20, 40, 60, 80]
    assert Cron("15 30 4 * * *").next(start, start) == utc(2030, 1, 1, 4, 30, 15)


@pytest.mark.parametrize(
    ("shorthand", "expected"),
    [
        ("@hourly", utc(2030, 5, 15, 13)),
        ("@daily", utc(2030, 5, 16)),
        ("@midnight", utc(2030, 5, 16)),
        ("@weekly", utc(2030, 5, 19)),  # a Sunday
        ("@monthly", utc(2030, 6, 1)),
        ("@yearly", utc(2031, 1, 1)),
        ("@annually", utc(2031, 1, 1)),
        (" @Daily ", utc(2030, 5, 16)),
    ],
)
def test_shorthands(shorthand: str, expected: datetime) -> None:
    now = utc(2030, 5, 15, 12, 30)
    assert Cron(shorthand).next(now, now) == expected


def test_midnight_is_that_of_the_time_zone() -> None:
    now = utc(2030, 5, 15, 12)
    assert Cron("@daily", timezone="Europe/Berlin").next(now, now) == utc(2030, 5, 15, 22)


def test_a_time_that_does_not_exist_ticks_when_the_clock_has_been_set() -> None:
    """02:30 does not exist: the tick comes at 03:00, which is 01:00 UTC."""
    assert in_berlin("30 2 * * *", SPRING - timedelta(hours=12), 2) == ["31 01:00", "01 00:30"]
    assert in_berlin("15,45 2 * * *", SPRING, 3) == ["31 01:00", "01 00:15", "01 00:45"]


def test_a_time_that_exists_twice_ticks_the_first_time() -> None:
    assert in_berlin("30 2 * * *", AUTUMN - timedelta(hours=12), 2) == ["27 00:30", "28 01:30"]


def test_between_the_two_occurrences_the_next_tick_is_that_of_the_next_day() -> None:
    """cronsim alone says 00:30, which is over: a schedule would tick again and again."""
    between = utc(2030, 10, 27, 1, 10)  # 02:10, the second time
    assert in_berlin("30 2 * * *", between, 1) == ["28 01:30"]


def test_what_ticks_every_hour_or_minute_goes_by_real_time() -> None:
    assert in_berlin("0 * * * *", SPRING, 3) == ["31 01:00", "31 02:00", "31 03:00"]
    assert in_berlin("0 * * * *", AUTUMN - timedelta(minutes=1), 3) == [
        "27 00:00", "27 01:00", "27 02:00",
    ]  # fmt: skip
    assert in_berlin("*/30 2 * * *", AUTUMN - timedelta(minutes=1), 5) == [
        "27 00:00", "27 00:30", "27 01:00", "27 01:30", "28 01:00",
    ]  # fmt: skip


def test_six_fields_take_the_clock_literally() -> None:
    """What does not exist is left out, what exists twice ticks twice."""
    assert in_berlin("0 30 2 * * *", SPRING, 1) == ["01 00:30"]
    assert in_berlin("0 30 2 * * *", AUTUMN, 3) == ["27 00:30", "27 01:30", "28 01:30"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"])
@pytest.mark.parametrize(
    "expression",
    ["30 2 * * *", "0 0 * * *", "*/7 * * * *", "0 */3 * * *", "0 45 1 * * *", "15 0,1,2,3 * * *"],
)
def test_the_next_tick_is_always_later(expression: str, zone: str) -> None:
    """From every minute of the days on which clocks change, in both hemispheres."""
    cron = Cron(expression, timezone=zone)
    for change in (SPRING, AUTUMN, utc(2030, 4, 7), utc(2030, 9, 8), utc(2030, 10, 6)):
        moments = [change - timedelta(days=1) + n * timedelta(minutes=11) for n in range(400)]
        found = [cron.next(moment, moment) for moment in moments]
        assert all(tick > moment for tick, moment in zip(found, moments, strict=True))
        # Where clocks change by half an hour, cronsim may leave out a tick of that night.
        is_whole = zone != "Australia/Lord_Howe"
        assert not is_whole or all(earlier <= later for earlier, later in pairwise(found))


@pytest.mark.parametrize(
    "expression",
    ["61 * * * *", "* * * *", "* * * * * * *", "", "@reboot", "0 0 30 2 *", "every day", "@"],
)
def test_what_is_not_a_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"not a cron expression.*five fields.*@daily"):
        Cron(expression)


@pytest.mark.parametrize("zone", ["Nowhere/Land", "", "../etc/passwd", "Europe", "a\0b"])
def test_what_is_not_a_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        Cron("* * * * *", timezone=zone)


def test_what_is_not_an_interval_is_refused() -> None:
    for every in (timedelta(0), timedelta(seconds=-1), timedelta.max):
        with pytest.raises(ValueError, match="more than 0 and at most"):
            Repeat(every)
    seconds: Any = 5
    with pytest.raises(TypeError, match="expected a timedelta, not int"):
        Repeat(seconds)
    with pytest.raises(TypeError, match="expected two strings"):
        Cron(seconds)


def test_what_is_not_a_schedule_is_refused() -> None:
    hourly = Repeat(timedelta(hours=1))
    with pytest.raises(InvalidJob, match="name of its schedule is empty"):
        Schedule("", hourly, Job("reports"))
    with pytest.raises(InvalidJob, match="is not JSON"):
        Schedule("s", hourly, Job("reports", object()))
    with pytest.raises(ReservedChannel, match=r"milepost\.schedules"):
        Schedule("s", hourly, Job("milepost.schedules"))
    when: Any = "0 3 * * *"
    with pytest.raises(TypeError, match=r"expected Repeat\(...\) or Cron\(...\)"):
        Schedule("s", when, Job("reports"))


@pytest.mark.parametrize(
    "times", [Repeat(timedelta(seconds=0.25)), Cron("@daily"), Cron("0 3 * * 1", "Asia/Tokyo")]
)
def test_times_come_back_from_their_columns(times: Times) -> None:
    columns: dict[str, Any] = to_columns(times)
    assert from_columns(**columns) == times
