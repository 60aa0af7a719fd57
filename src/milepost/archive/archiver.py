"""The archiver: a member of a run that writes what is old to files, before it may be removed."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar

from milepost import db
from milepost.archive.plan import FileSize, next_file
from milepost.archive.session import RETRY, ArchiverSession, Request
from milepost.owner import owner_name
from milepost.processors import Definition, ProcessorOptions, ProcessorStatus, Standby
from milepost.retry import Retry
from milepost.runtime import Supervisor

if TYPE_CHECKING:
    from milepost.runtime import Runtime, Until
    from milepost.sql import Activity

NAME = "milepost.archive"
# Every process of an application may run one, and it does not matter if another takes over late.
STANDBY = Retry(first_seconds=1.0, longest_seconds=15.0)


@dataclass(frozen=True, slots=True)
class Archiver:
    """A processor like any other, but for its handler: the policy says where it writes."""

    runtime: Runtime
    size: FileSize = field(default_factory=FileSize)
    retry: Retry = RETRY
    standby: Retry = STANDBY
    owner: str = field(default_factory=owner_name)
    name: ClassVar[str] = NAME
    activity: ClassVar[Activity] = "archive"
    # For its turn and for the connection that reads, which it keeps; and one for the duties of all
    # other members.
    own_connections: ClassVar[int] = 3

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        self.runtime.reserve([self])
        self._supervisor(stop or Event()).run(until)

    def caught_up(self) -> bool:
        with db.connect(self.runtime.url) as conn, db.acting(conn, self.activity):
            return next_file(conn, self.runtime.schema, self.size, is_last=True) is None

    def _supervisor(self, stop: Event) -> Supervisor:
        runtime, options = self.runtime, ProcessorOptions(NAME, delivery="at_least_once")
        status = ProcessorStatus(
            owner=self.owner,
            schema=runtime.schema,
            options=options,
            report_seconds=runtime.timing.report_seconds,
        )
        standby = Standby(options, runtime, status, stop, self.standby)
        request = Request()
        return Supervisor(
            lambda: self._session(
                Definition(options), runtime, status, stop, standby,
                size=self.size, retry=self.retry, request=request,
            ),
            status,
            runtime.url,
            self.activity,
            stop,
        )  # fmt: skip

    def _session(self, *parts: Any, **options: Any) -> ArchiverSession:
        return ArchiverSession(*parts, **options)
