"""One instance of a processor: its sessions, supervised."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, TypeAlias

from milepost.owner import owner_name
from milepost.processors.segments.session import SegmentedSession
from milepost.processors.self_checkpointing.work import refuse_unfit
from milepost.processors.session import PlainSession, ProcessorSession
from milepost.processors.standby import Standby
from milepost.processors.status import ProcessorStatus
from milepost.runtime import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.processors.definition import Definition
    from milepost.runtime import Runtime, Until

MakeSession: TypeAlias = "Callable[..., ProcessorSession]"


@dataclass(slots=True)
class Runner:
    definition: Definition
    runtime: Runtime
    stop: Event = field(default_factory=Event)
    owner: str = field(default_factory=owner_name)
    make_session: MakeSession | None = None  # None: as its segments say, in this process
    supervisor: Supervisor = field(init=False)

    def __post_init__(self) -> None:
        if not self.definition.handlers:
            raise ValueError(f"Processor {self.definition.options.name!r} has no handler.")
        refuse_unfit(self.definition)
        options, runtime = self.definition.options, self.runtime
        here = PlainSession if self.definition.segments is None else SegmentedSession
        make = self.make_session or here
        status = ProcessorStatus(
            owner=self.owner,
            schema=runtime.schema,
            options=options,
            report_seconds=runtime.timing.report_seconds,
        )
        standby = Standby(options, runtime, status, self.stop)
        self.supervisor = Supervisor(
            lambda: make(self.definition, runtime, status, self.stop, standby),
            status,
            runtime.url,
            "process",
            self.stop,
        )

    def run(self, until: Until = "stopped") -> None:
        """Until a stop is requested, or caught up. Raises what ends the processor for good."""
        self.supervisor.run(until)
