"""`given(messages).when(handler).then(...)`: a handler without a running processor.

The handler is called as a processor or worker calls it, in a transaction of the test's database. It
commits, so that deferred constraints are checked too: the database is thrown away after the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from milepost import db
from milepost.queue import Worker
from milepost.records import Job, Message
from milepost.testing.calling import process, work
from milepost.testing.effects import Effects, effects_between, unmatched
from milepost.testing.snapshot import JOBS, MESSAGES, Row, Snapshot, shown, take_snapshot

if TYPE_CHECKING:
    from milepost.handlers import Handler
    from milepost.processors import Processor

T = TypeVar("T", Message, Job)


@dataclass(frozen=True, slots=True)
class Given:
    """What the handler is given, in the test's database."""

    url: str = field(repr=False)
    schema: str
    items: Sequence[Message | Job]

    def when(self, handler: Processor | Worker | Handler) -> Outcome:
        """Call it with them, as if they had been read from the log or taken from the queue."""
        before = self._snapshot()
        error: Exception | None = None
        try:
            self._call(handler)
        except Exception as raised:  # noqa: BLE001 - what a handler raises is an outcome
            error = raised
        return Outcome(effects_between(before, self._snapshot()), error)

    def _snapshot(self) -> Snapshot:
        with db.connect(self.url) as conn:
            return take_snapshot(conn, self.schema)

    def _call(self, handler: Processor | Worker | Handler) -> None:
        if isinstance(handler, Worker):
            work(handler, self.url, self._all(Job, "a worker"))
        else:
            process(handler, self.url, self._all(Message, "a processor"))

    def _all(self, kind: type[T], who: str) -> list[T]:
        found = [item for item in self.items if isinstance(item, kind)]
        if len(found) != len(self.items):
            raise TypeError(
                f"{who} is given objects of {kind.__name__}, but given(...) has {self.items!r}."
            )
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """`effects` and `error` are for asserts of one's own."""

    effects: Effects
    error: Exception | None

    def then(
        self,
        *,
        rows: Mapping[str, Sequence[Row]] | None = None,
        removed: Mapping[str, Sequence[Row]] | None = None,
        messages: Sequence[Message] | None = None,
        jobs: Sequence[Job] | None = None,
        raises: type[Exception] | None = None,
    ) -> Outcome:
        """Check what is named, each exactly: the rows that were added to a table and removed from
        it (only the columns that are given count), the messages that were appended, the jobs that
        were put, the error that was raised. Without `raises`, there must be none. What is not named
        is not checked; see `then_nothing`."""
        self._check_error(raises)
        for table, expected in (rows or {}).items():
            _check(f"rows added to {table}", expected, self.effects.added(table))
        for table, expected in (removed or {}).items():
            _check(f"rows removed from {table}", expected, self.effects.removed(table))
        if messages is not None:
            _check(
                "messages appended", [_as_row(m) for m in messages], self.effects.added(MESSAGES)
            )
        if jobs is not None:
            _check("jobs put", [_as_job_row(j) for j in jobs], self.effects.added(JOBS))
        return self

    def then_nothing(self) -> Outcome:
        """It has changed nothing, and has not failed."""
        self._check_error(None)
        if self.effects.tables:
            raise AssertionError(
                f"Expected no effects, but these tables changed: {self.effects.tables}"
            )
        return self

    def _check_error(self, raises: type[Exception] | None) -> None:
        if raises is None and self.error is not None:
            raise AssertionError(
                "The handler failed. To expect it: then(raises=...)."
            ) from self.error
        if raises is not None and not isinstance(self.error, raises):
            found = "nothing" if self.error is None else repr(self.error)
            raise AssertionError(
                f"Expected {raises.__name__}, but {found} was raised."
            ) from self.error


def _check(what: str, expected: Sequence[Row], found: Sequence[Row]) -> None:
    missing, left = unmatched(expected, found)
    if not missing and not left:
        return
    lines = [f"The {what} are not as expected:"]
    lines += [f"  missing     {shown(row)}" for row in missing]
    lines += [f"  unexpected  {shown(row)}" for row in left]
    raise AssertionError("\n".join(lines))


def _as_row(message: Message) -> Row:
    return {"type": message.type, "topic": message.topic, "key": message.key, "data": message.data}


def _as_job_row(job: Job) -> Row:
    return {"channel": job.channel, "content": job.content}
