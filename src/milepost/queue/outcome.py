"""How an attempt ended, and what the queue does then. Pure: chance is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.errors import InvalidJob, InvalidResult, JobTransactionEnded, describe, message_of
from milepost.handlers import storable
from milepost.queue.encode import encode_value
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.records import TakenJob

# None: give up immediately. An exception's own class counts before its base classes.
RetryPolicy: TypeAlias = "Retry | Mapping[type[BaseException], Retry | None]"
# As often as the job's own max_attempts allow.
DEFAULT_RETRY = Retry(limit=2**31, first_seconds=1.0, longest_seconds=3600.0)

# Another attempt would repeat effects that were not undone, or end in the same way.
FINAL = (JobTransactionEnded, InvalidResult)

# The server computes the times of such delays, and takes the nearest one that a job can have.
EARLIEST, LATEST = timedelta(days=-2_000_000), timedelta(days=100_000_000)


class Defer(Exception):
    """Raise or return it: the job runs again later, at `until` or after that long, and keeps its
    state unless one is given. This is not a failure. Returned by a handler with a transaction, it
    commits with that; raised, the transaction is rolled back."""

    def __init__(self, until: datetime | timedelta | None = None, state: Any = None) -> None:
        if isinstance(until, datetime) and until.tzinfo is None:
            raise ValueError(f"{until} has no time zone: a job's times are absolute.")
        self.until, self.state = until, state
        super().__init__(f"until {until}")


class Yield(Defer):
    """Defer until the jobs that wait in the same channel have had their turn."""

    def __init__(self, state: Any = None) -> None:
        super().__init__(None, state)


class Cancel(Exception):
    """Raise or return it: the job ends without a result, and is not tried again."""


class Kind(Enum):
    """Each is one statement for many jobs."""

    COMPLETE = auto()
    DEFER = auto()
    FAIL = auto()
    CANCEL = auto()
    GIVE_BACK = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """The end of one attempt."""

    job: TakenJob
    kind: Kind
    result: bytes | None = None
    delay: timedelta | None = None
    until: datetime | timedelta | None = None
    state: bytes | None = None
    error: str | None = None
    is_final: bool = False

    @property
    def is_dead(self) -> bool:
        """Whether the job is dead after this. The server decides it in the same way."""
        is_last = self.job.failures + 1 >= self.job.max_attempts
        return self.kind is Kind.FAIL and (self.is_final or is_last)


def ending_of_return(job: TakenJob, result: object) -> Ending:
    if isinstance(result, Defer | Cancel):
        return _ending_of_wish(job, result)
    # A result that is not kept need not be JSON.
    kept = _encoded(job, "result", result) if job.is_kept and result is not None else None
    return Ending(job, Kind.COMPLETE, result=kept)


def ending_of_error(
    job: TakenJob, error: BaseException, policy: RetryPolicy, chance: float
) -> Ending:
    if isinstance(error, Defer | Cancel):
        try:
            return _ending_of_wish(job, error)
        except InvalidResult as invalid:
            error = invalid
    text = storable(describe(error))
    if job.cancelled:
        return Ending(job, Kind.CANCEL, error=text)
    retry = None if isinstance(error, FINAL) else retry_for(error, policy)
    retries = job.failures + 1
    if retry is None or retries > retry.limit:
        return Ending(job, Kind.FAIL, error=text, is_final=True)
    delay = timedelta(seconds=retry.delay_seconds(retries, chance))
    return Ending(job, Kind.FAIL, error=text, delay=delay)


def unacceptable(ending: Ending, error: Exception) -> Ending:
    """The server refused to store it. Final: the next attempt would end in the same way."""
    text = storable(f"{ending.kind.name.lower()} was refused: {describe(error)}")
    return Ending(ending.job, Kind.FAIL, error=text, is_final=True)


def _ending_of_wish(job: TakenJob, wish: Defer | Cancel) -> Ending:
    if isinstance(wish, Cancel):
        return Ending(job, Kind.CANCEL, error=storable(message_of(wish)) or None)
    if isinstance(wish.until, timedelta) and not EARLIEST <= wish.until <= LATEST:
        reason = f"is {wish.until} from now: expected {EARLIEST.days:,} to {LATEST.days:,} days."
        raise InvalidResult(job.id, "until", reason)
    state = None if wish.state is None else _encoded(job, "state", wish.state)
    return Ending(job, Kind.DEFER, until=wish.until, state=state)


def _encoded(job: TakenJob, field: str, value: Any) -> bytes:
    try:
        return encode_value(field, value)
    except InvalidJob as error:
        raise InvalidResult(job.id, field, error.reason) from error


def check_retry(policy: object) -> None:
    """Refused when the worker is registered, not at its first failure."""
    if isinstance(policy, Retry):
        return
    if not isinstance(policy, Mapping):
        raise TypeError(
            f"retry is {policy!r}: expected a Retry, as in Retry(limit=3), or a mapping from "
            "exception classes to Retry or None."
        )
    for kind, retry in policy.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"retry has the key {kind!r}: expected an exception class.")
        if not (retry is None or isinstance(retry, Retry)):
            raise TypeError(
                f"retry of {kind.__name__} is {retry!r}: expected a Retry, or None to give up "
                "immediately."
            )


def retry_for(error: BaseException, policy: RetryPolicy) -> Retry | None:
    if isinstance(policy, Retry):
        return policy
    for kind in type(error).__mro__:
        if kind in policy:
            return policy[kind]
    return DEFAULT_RETRY
