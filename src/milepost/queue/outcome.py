"""How an attempt ended, and what the queue is to be told of it. Pure: chance is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.errors import JobTransactionEnded
from milepost.handlers import storable
from milepost.queue.encode import encode_value
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.records import TakenJob

# None: give up at once. The exception's own class counts before those that it inherits from.
RetryPolicy: TypeAlias = "Retry | Mapping[type[BaseException], Retry | None]"
# As often as the job's own max_attempts allow.
DEFAULT_RETRY = Retry(limit=2**31, first_seconds=1.0, longest_seconds=3600.0)


class Defer(Exception):
    """Raise or return it: the job runs again later, at `until` or after that long, and keeps its
    state unless one is given. It is no failure. Returned by a handler with a transaction, it
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
    """What the queue is told; each is one statement for many jobs."""

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
        """Whether the job is set aside as dead by this, as the server decides it too."""
        is_last = self.job.failures + 1 >= self.job.max_attempts
        return self.kind is Kind.FAIL and (self.is_final or is_last)


def ending_of_return(job: TakenJob, result: object) -> Ending:
    if isinstance(result, Defer):
        return deferred(job, result)
    if isinstance(result, Cancel):
        return Ending(job, Kind.CANCEL, error=storable(str(result)) or None)
    # What nobody asked to keep need not be JSON.
    kept = encode_value("result", result) if job.is_kept and result is not None else None
    return Ending(job, Kind.COMPLETE, result=kept)


def ending_of_error(
    job: TakenJob, error: BaseException, policy: RetryPolicy, chance: float
) -> Ending:
    if isinstance(error, Defer):
        return deferred(job, error)
    if isinstance(error, Cancel):
        return Ending(job, Kind.CANCEL, error=storable(str(error)) or None)
    text = storable(f"{type(error).__name__}: {error}")
    if job.cancelled:
        return Ending(job, Kind.CANCEL, error=text)
    retry = None if isinstance(error, JobTransactionEnded) else retry_for(error, policy)
    retries = job.failures + 1
    if retry is None or retries > retry.limit:
        return Ending(job, Kind.FAIL, error=text, is_final=True)
    delay = timedelta(seconds=retry.delay_seconds(retries, chance))
    return Ending(job, Kind.FAIL, error=text, delay=delay)


def unacceptable(ending: Ending, error: Exception) -> Ending:
    """What the server refused to store. Final: the handler would say it again."""
    text = storable(f"{ending.kind.name.lower()} was refused: {error}")
    return Ending(ending.job, Kind.FAIL, error=text, is_final=True)


def deferred(job: TakenJob, defer: Defer) -> Ending:
    state = None if defer.state is None else encode_value("state", defer.state)
    return Ending(job, Kind.DEFER, until=defer.until, state=state)


def retry_for(error: BaseException, policy: RetryPolicy) -> Retry | None:
    if isinstance(policy, Retry):
        return policy
    for kind in type(error).__mro__:
        if kind in policy:
            return policy[kind]
    return DEFAULT_RETRY
