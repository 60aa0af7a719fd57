"""From a job to the columns of its row. What the queue cannot hold is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from milepost.encode import check_text, to_json
from milepost.errors import InvalidJob, ReservedChannel
from milepost.records import OnDead

if TYPE_CHECKING:
    from collections.abc import Iterable

    from milepost.records import Job

LONGEST_CHANNEL = 255
LONGEST_UNIQUE_KEY = 1024
RESERVED = "milepost."  # how the names of internal channels begin: no pattern matches them
_LOWEST_PRIORITY, _HIGHEST_PRIORITY = -(2**15), 2**15 - 1
_DEFAULT_ATTEMPTS, _MOST_ATTEMPTS = 25, 2**31 - 1
# A day from the ends of what a datetime can hold, so that every time zone can show it.
_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)
_LONGEST_DELAY = timedelta(days=365_000)


class Row(NamedTuple):
    """The columns of a job. Of `run_at` and `delay` at most one is given."""

    channel: str
    content: bytes
    run_at: datetime | None
    delay: timedelta | None
    priority: int
    max_attempts: int
    unique_key: str | None
    state: bytes | None
    keep_for: timedelta | None
    after: list[int] | None
    on_dead: str
    replace: bool
    unique_for: timedelta | None


# What a job has besides its channel and content, and the defaults of that.
_more = attrgetter(
    "run_at", "priority", "max_attempts", "unique_key", "state", "keep_for", "after", "replace",
    "unique_for", "on_dead",
)  # fmt: skip
_NO_MORE = (None, 0, _DEFAULT_ATTEMPTS, None, None, None, (), False, None, "wait")


def encode(job: Job) -> Row:
    check_channel(job.channel)
    content = encode_value("content", job.content)
    run_at, delay = _times(job)
    _check_numbers(job)
    _check_conditions(job)
    state = None if job.state is None else encode_value("state", job.state)
    # Past NamedTuple's own constructor, which costs as much as all the checks above.
    return tuple.__new__(
        Row,
        (
            job.channel,
            content,
            run_at,
            delay,
            job.priority,
            job.max_attempts,
            job.unique_key,
            state,
            job.keep_for,
            list(job.after) or None,
            job.on_dead,
            job.replace,
            job.unique_for,
        ),
    )


def are_plain(jobs: Iterable[Job]) -> bool:
    """Whether they have nothing but their channels and contents. Without a Python call for each."""
    return all(map(_NO_MORE.__eq__, map(_more, jobs)))


def encode_plain(job: Job) -> tuple[str, bytes]:
    """The channel and the content, of a job that has nothing else."""
    check_channel(job.channel)
    return job.channel, encode_value("content", job.content)


def check_channel(name: object) -> None:
    check_text("channel", name, LONGEST_CHANNEL, InvalidJob)
    refuse_reserved(name)


def refuse_reserved(name: Any) -> None:
    """As the SQL function of that name does."""
    if name.startswith(RESERVED):
        raise ReservedChannel(
            f"The channel {name!r} is reserved: names that begin with {RESERVED!r} are for "
            "internal use. Nothing was changed. Choose another name."
        )


def encode_value(field: str, value: Any) -> bytes:
    """JSON; bytes as they are."""
    if isinstance(value, bytes):
        return value
    return to_json(field, value, InvalidJob, may_hold_nul=True)


def _times(job: Job) -> tuple[datetime | None, timedelta | None]:
    _check_duration("keep_for", job.keep_for)
    _check_duration("unique_for", job.unique_for)
    if job.run_at is None:
        return None, None
    if isinstance(job.run_at, timedelta):
        if abs(job.run_at) > _LONGEST_DELAY:
            longest = _LONGEST_DELAY.days
            raise InvalidJob(
                "run_at", f"is {job.run_at} from now: expected up to {longest:,} days."
            )
        return None, job.run_at
    if not isinstance(job.run_at, datetime):
        kind = type(job.run_at).__name__
        raise InvalidJob("run_at", f"must be a datetime or a timedelta, not {kind}.")
    if job.run_at.tzinfo is None:
        raise InvalidJob("run_at", f"is {job.run_at}, without a time zone. Times are absolute.")
    if not _EARLIEST <= job.run_at <= _LATEST:
        raise InvalidJob("run_at", f"is {job.run_at}: expected {_EARLIEST} to {_LATEST}.")
    return job.run_at, None


def _check_duration(field: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, timedelta):
        hint = "a timedelta, such as timedelta(seconds=60)"
        raise InvalidJob(field, f"is {value!r}: expected {hint}.")
    if not timedelta(0) < value <= _LONGEST_DELAY:
        longest = f"at most {_LONGEST_DELAY.days:,} days"
        raise InvalidJob(field, f"is {value}: expected more than nothing, and {longest}.")


def _check_conditions(job: Job) -> None:
    if job.unique_key is not None:
        check_text("unique_key", job.unique_key, LONGEST_UNIQUE_KEY, InvalidJob)
    elif job.replace or job.unique_for is not None:
        field = "replace" if job.replace else "unique_for"
        raise InvalidJob(field, "needs a unique_key: by it, the other job is found.")
    if job.on_dead not in get_args(OnDead):
        expected = ", ".join(get_args(OnDead))
        raise InvalidJob("on_dead", f"is {job.on_dead!r}: expected one of {expected}.")
    if isinstance(job.after, str) or not all(isinstance(id_, int) for id_ in job.after):
        raise InvalidJob("after", f"is {job.after!r}: expected ids of jobs, as put() returns them.")
    if job.after and job.replace:
        raise InvalidJob("replace", "is not possible for a job that waits for others (after).")


def _check_numbers(job: Job) -> None:
    _check_number("priority", job.priority, _LOWEST_PRIORITY, _HIGHEST_PRIORITY)
    _check_number("max_attempts", job.max_attempts, 1, _MOST_ATTEMPTS)


def _check_number(field: str, number: object, lowest: int, highest: int) -> None:
    if not isinstance(number, int) or not lowest <= number <= highest:
        raise InvalidJob(field, f"is {number!r}: expected {lowest} to {highest}.")
