"""The policies of channels and of families of channels. A channel without one is unlimited and
needs no declaration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from milepost import db, sql
from milepost.encode import check_text
from milepost.errors import InvalidJob, InvalidPolicy, UnknownChannel
from milepost.queue.encode import LONGEST_CHANNEL, refuse_reserved

if TYPE_CHECKING:
    from milepost.db import Connection

_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` jobs in each period, evenly, of which `burst` may begin without a pause. So no more
    than `count` and `burst` together begin in any time as long as the period."""

    count: int
    per: timedelta | float = timedelta(seconds=1)
    burst: int = 1

    def __post_init__(self) -> None:
        _check_number("rate", self.count)
        _check_number("burst", self.burst)
        object.__setattr__(self, "per", _interval("rate", self.per))


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of a channel, for all workers together; None is unlimited. Of a family
    (`tenant.*`), the limits of each of its channels; only `max_concurrency_total` is for all of
    them together. Times are a timedelta or a number of seconds."""

    max_concurrency: int | None = None
    release_interval: timedelta | float | None = None
    max_size: int | None = None
    paused: bool = False
    max_concurrency_total: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        for field in ("max_concurrency", "max_size", "max_concurrency_total"):
            if (number := getattr(self, field)) is not None:
                _check_number(field, number)
        if self.release_interval is not None:
            interval = _interval("release_interval", self.release_interval)
            object.__setattr__(self, "release_interval", interval)
        if self.rate is not None and not isinstance(self.rate, Rate):
            kind = type(self.rate).__name__
            raise InvalidPolicy("rate", f"must be a Rate, not {kind}, as in Rate(10, per=1.0).")


def set_channel(
    conn: Connection, name: str, policy: Policy, schema: str = sql.DEFAULT_SCHEMA
) -> None:
    """Set the whole policy of a channel, or of a family; it takes effect immediately."""
    check_name(name)
    refuse_reserved(name)
    if policy.max_concurrency_total is not None and not name.endswith("*"):
        reason = f"is for families, as 'tenant.*'. {name!r} is one channel: use max_concurrency."
        raise InvalidPolicy("max_concurrency_total", reason)
    rate = policy.rate
    parameters: dict[str, Any] = {
        "max_concurrency": policy.max_concurrency,
        "release_interval": policy.release_interval,
        "max_size": policy.max_size,
        "paused": policy.paused,
        "max_concurrency_total": policy.max_concurrency_total,
        "rate_count": rate and rate.count,
        "rate_period": rate and rate.per,
        "rate_burst": rate and rate.burst,
    }
    db.run(conn, schema, "queue_set_channel", name=name, **parameters)


def unset_channel(conn: Connection, name: str, schema: str = sql.DEFAULT_SCHEMA) -> bool:
    """Remove the policy of a channel or a family; whether there was one. Then that of its family
    applies, or none."""
    return bool(db.fetch_one(conn, schema, "queue_unset_channel", name=name)[0])


def pause_channel(
    conn: Connection, name: str, *, paused: bool = True, schema: str = sql.DEFAULT_SCHEMA
) -> None:
    """Pause a channel or a family, or resume it, whatever else its policy says. One that nothing is
    known of is refused: its name may be misspelt."""
    check_name(name)
    refuse_reserved(name)
    if not db.fetch_one(conn, schema, "queue_channel_exists", name=name)[0]:
        raise UnknownChannel(name, schema)
    db.run(conn, schema, "queue_pause", name=name, paused=paused)


def policies(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> dict[str, Policy]:
    """Of the channels and families that have one, by name."""
    return {row[0]: _policy(*row[1:]) for row in db.fetch_all(conn, schema, "queue_policies")}


def check_name(name: str) -> None:
    """Of a channel or a family."""
    check_text("channel", name, LONGEST_CHANNEL, InvalidJob)
    if "*" in name[:-1]:
        reason = f"is {name!r}: the star is allowed at the end only, as in 'tenant.*'."
        raise InvalidPolicy("name", reason)


def _policy(
    max_concurrency: int | None,
    release_interval: timedelta | None,
    max_size: int | None,
    is_paused: bool,
    max_concurrency_total: int | None,
    *rate: Any,
) -> Policy:
    return Policy(
        max_concurrency,
        release_interval,
        max_size,
        is_paused,
        max_concurrency_total,
        None if rate[0] is None else Rate(*rate),
    )


def _check_number(field: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST:
        reason = f"is {number!r}: expected a whole number from 1 on. To stop a channel, pause it."
        raise InvalidPolicy(field, reason)


def _interval(field: str, value: object) -> timedelta:
    """A number is seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            value = timedelta(seconds=value)
        except (OverflowError, ValueError) as error:  # infinity, NaN
            raise InvalidPolicy(field, f"is {value!r}: expected a number of seconds.") from error
    if not isinstance(value, timedelta):
        kind = type(value).__name__
        raise InvalidPolicy(field, f"must be a timedelta or a number of seconds, not {kind}.")
    if value <= timedelta(0):
        raise InvalidPolicy(field, f"is {value}: expected more than nothing.")
    return value
