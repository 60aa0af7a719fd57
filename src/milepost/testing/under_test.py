"""The Milepost object of a test: the application's, on the test's own database, with helpers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from milepost import db
from milepost.app import Milepost
from milepost.queue.admin import Status, list_jobs
from milepost.testing.clock import Clock
from milepost.testing.effects import Effects, effects_between
from milepost.testing.given import Given
from milepost.testing.seen_job import SeenJob
from milepost.testing.snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.drivers import AnyEngine
    from milepost.records import Job, Message, RecordedMessage

MOST_JOBS = 100_000


class MilepostUnderTest(Milepost):
    """What the fixture `mp` is. It is the application itself: what is registered with one of them
    is registered with both."""

    @classmethod
    @contextmanager
    def of(cls, app: Milepost, url: str, engines: Sequence[AnyEngine] = ()) -> Iterator[Self]:
        """The application on another database, until the end of the block, with its engines: the
        one that it was made with, and those that are given."""
        made = cls.__new__(cls)
        made.__dict__ = app.__dict__
        own = [] if app._engine is None else [app._engine]
        with ExitStack() as stack:
            for engine in {id(each): each for each in (*own, *engines)}.values():
                from milepost.testing.engines import engine_on  # an extra

                stack.enter_context(engine_on(engine, url))
            stack.enter_context(app._on_database(url))
            yield made

    @property
    def url(self) -> str:
        """Of the test's database."""
        return self._url

    @property
    def clock(self) -> Clock:
        """`mp.clock.move(hours=1)`: schedules and jobs that are due until then are due now."""
        return Clock(self._url, self.schema, list(self._queue.schedules.values()))

    def drain(self, *only: str) -> None:
        """Run the processors, pipelines, workers and schedules, all or those that are named, until
        all have caught up and nothing is left to do. Raises what a handler raises for good."""
        self.run(only or None, until="caught_up")

    def messages(
        self,
        *,
        type: str | None = None,  # noqa: A002 - as the field of a message is called
        topic: str | None = None,
        key: str | None = None,
    ) -> list[RecordedMessage]:
        """The messages in the log, in order."""
        found = self.read(
            topics=None if topic is None else [topic], types=None if type is None else [type]
        )
        return [message for message in found if key is None or message.key == key]

    def jobs(self, *, channel: str | None = None, status: Status | None = None) -> list[SeenJob]:
        """The jobs that are waiting, running, dead or kept, the oldest first. A job that is
        completed is gone, unless it has a `keep_for`."""
        with self.connect() as conn:
            found = list_jobs(conn, self.schema, channel, status, MOST_JOBS)
        return [SeenJob.of(job) for job in found]

    def effects_of(self, change: Callable[[], Any]) -> Effects:
        """What a function has changed in the database: rows of tables, messages, jobs."""
        before = self._snapshot()
        change()
        return effects_between(before, self._snapshot())

    def given(self, *items: Message | Job) -> Given:
        """`mp.given(message).when(handler).then(...)`: call a handler without running it."""
        return Given(self._url, self.schema, _flat(items))

    def _snapshot(self) -> Snapshot:
        with db.connect(self._url) as conn:
            return take_snapshot(conn, self.schema)


def _flat(items: Sequence[Any]) -> list[Message | Job]:
    """given(a, b) and given([a, b]) are the same."""
    return [each for item in items for each in (item if isinstance(item, list) else [item])]
