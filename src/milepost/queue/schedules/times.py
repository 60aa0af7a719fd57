"""When a schedule ticks. Pure: the time is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

LONGEST = timedelta(days=36_525)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Repeat:
    """At regular intervals, counted from its registration."""

    every: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.every, timedelta):
            kind = type(self.every).__name__
            raise TypeError(f"every is {self.every!r}: expected a timedelta, not {kind}.")
        if not timedelta(0) < self.every <= LONGEST:
            raise ValueError(f"every is {self.every}: expected more than 0 and at most {LONGEST}.")

    def next(self, begun: datetime, after: datetime) -> datetime:
        """The first tick after a time."""
        ticks = max(0, (after - begun) // self.every)
        return begun + (ticks + 1) * self.every


@dataclass(frozen=True, slots=True)
class Cron:
    """At the times of a cron expression, as a clock in the time zone shows them.

    Five fields, or six with seconds first, or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    `@yearly`. docs/queue.md says what happens when the clocks change.
    """

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str) or not isinstance(self.timezone, str):
            raise TypeError(f"{self.expression!r}, {self.timezone!r}: expected two strings.")
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"There is no time zone {self.timezone!r}.") from error
        try:
            self.next(_EPOCH, _EPOCH)
        except CronSimError as error:
            raise ValueError(
                f"{self.expression!r} is not a cron expression: {error}. Expected five fields "
                "(minute, hour, day, month, day of the week), six with seconds first, or one of "
                f"{', '.join(_SHORTHANDS)}."
            ) from error

    def next(self, begun: datetime, after: datetime) -> datetime:  # noqa: ARG002 - as Repeat's
        """The first tick after a time, in UTC.

        Where clocks are set back, a time exists twice. cronsim proposes its first occurrence, also
        if only the second one is still to come: that one was put already.
        """
        fields = _SHORTHANDS.get(self.expression.strip().lower(), self.expression)
        for proposed in CronSim(fields, after.astimezone(ZoneInfo(self.timezone))):
            # In UTC: two times of one zone are compared by what its clock shows.
            if (tick := proposed.astimezone(UTC)) > after:
                return tick
        raise ValueError(f"{self.expression!r} has no tick after {after}.")


Times: TypeAlias = Repeat | Cron


def to_columns(times: Times) -> dict[str, timedelta | str | None]:
    if isinstance(times, Repeat):
        return {"every": times.every, "cron": None, "timezone": None}
    return {"every": None, "cron": times.expression, "timezone": times.timezone}


def from_columns(every: timedelta | None, cron: str | None, timezone: str | None) -> Times:
    """Raises ValueError where this host does not know the expression or the time zone."""
    if every is not None:
        return Repeat(every)
    return Cron(cron or "", timezone or "")
