"""Whether a run is alive and ready, for an orchestrator that asks often and must not wait.

A thread looks at the database every few seconds, on one connection of the process's budget. The
answers are made of what it has seen last and of what the process knows by itself: they use no
connection, and an outage does not delay them. They name members, and no error's text: that may
contain data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import psycopg

from milepost import db
from milepost.errors import CompetingPipeline, MilepostError, NotPermitted
from milepost.pipeline.admin import list_pipelines
from milepost.processors import Follower
from milepost.processors.admin import list_processors
from milepost.runtime import Duty, Stopping

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.runtime import Group, Lease, Member, Runtime

DATABASE = "database"
OWN_CONNECTIONS = 1
END_SECONDS = 2.0  # a look that hangs does not keep the process from ending
# Kind, name and version. Of a pipeline the active version is meant, and it is None.
Key: TypeAlias = "tuple[str, str, int | None]"


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """Beyond `live_seconds` without a turn a loop hangs. It is more than the 130 s that an attempt
    to connect may take. Beyond `answer_seconds` without an answer the database is not reached."""

    lag_seconds: float = 300.0
    live_seconds: float = 180.0
    look_seconds: float = 2.0
    answer_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Failing:
    member: str
    why: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a processor or pipeline is behind, as the database says."""

    lag_seconds: float
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen in the database, or why nothing was."""

    at: float
    standings: Mapping[Key, Standing] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class MemberState:
    """What the process itself knows. `state` is what it would report; None of a worker."""

    name: str
    follows: Key | None  # of a processor or pipeline
    state: str | None
    failure: BaseException | None


def not_live(late: Mapping[str, float], gone: Iterable[str], limit: float) -> list[Failing]:
    return [
        *(Failing(name, "its thread is gone") for name in gone),
        *(
            Failing(name, f"its loop has not turned for {seconds:.0f} s (limit {limit:g} s)")
            for name, seconds in sorted(late.items())
        ),
    ]


def not_ready(
    look: Look, now: float, members: Sequence[MemberState], limits: ProbeLimits
) -> list[Failing]:
    """The database first: without it, nothing is known of the members."""
    if look.failure is not None:
        return [Failing(DATABASE, look.failure)]
    if now - look.at > limits.answer_seconds:
        return [Failing(DATABASE, f"it has not answered for {now - look.at:.0f} s")]
    found = ((member.name, _why_not(member, look.standings, limits)) for member in members)
    return [Failing(name, why) for name, why in found if why is not None]


def _why_not(
    member: MemberState, standings: Mapping[Key, Standing], limits: ProbeLimits
) -> str | None:
    if isinstance(member.failure, CompetingPipeline):  # another instance has the turn
        return None
    if member.failure is not None:
        return f"it has failed with {type(member.failure).__name__}, and is restarted"
    if member.follows is None or member.state == "standby":
        return None
    # "starting" lasts until the first batch is done, which may take as long as any other.
    if member.state in (None, "reconnecting"):
        return "it is starting" if member.state is None else "it is reconnecting"
    return _behind(standings.get(member.follows), limits)


def _behind(standing: Standing | None, limits: ProbeLimits) -> str | None:
    if standing is None:
        return "it has not registered yet"
    if standing.is_paused or standing.lag_seconds <= limits.lag_seconds:
        return None
    return f"it is {standing.lag_seconds:.0f} s behind (limit {limits.lag_seconds:g} s)"


@dataclass(slots=True)
class Probes:
    """Of one run: `watched` around it."""

    runtime: Runtime
    group: Group
    members: Sequence[Member]
    limits: ProbeLimits = field(default_factory=ProbeLimits)
    clock: Callable[[], float] = time.monotonic
    _look: Look = field(init=False)
    _lease: Lease = field(init=False)
    _duty: Duty = field(init=False)

    def __post_init__(self) -> None:
        self._look = Look(self.clock(), failure="it was not reached yet")
        self._duty = Duty("milepost-health", self._step, self._fail)
        self._lease = self.runtime.connections.lease("health", self._duty.closing, is_own=True)

    @contextmanager
    def watched(self) -> Iterator[None]:
        with self.runtime.expecting(OWN_CONNECTIONS):
            self._duty.start()
            try:
                yield
            finally:
                self._duty.close(END_SECONDS)

    def not_live(self) -> list[Failing]:
        limit = self.limits.live_seconds
        return not_live(self.group.pulses.late(limit), self.group.gone(), limit)

    def not_ready(self) -> list[Failing]:
        if self.group.stop.is_set():
            return [Failing("run", "it stops")]
        return not_ready(self._look, self.clock(), self._states(), self.limits)

    def _states(self) -> list[MemberState]:
        failures = self.group.failures()
        return [self._state(member, failures.get(member.name)) for member in self.members]

    def _state(self, member: Member, failure: BaseException | None) -> MemberState:
        if not isinstance(member, Follower):
            return MemberState(member.name, None, None, failure)
        status = self.group.pulses.status_of(member.kind, member.name)
        if status is None:
            return MemberState(member.name, (member.kind, member.name, None), None, failure)
        version = status.version if member.kind == "processor" else None
        return MemberState(member.name, (member.kind, member.name, version), status.state, failure)

    def _step(self) -> float | None:
        if self._duty.closing.is_set():
            self._lease.close()
            return None
        try:
            with self._lease as conn:
                standings = self._standings(conn)
            self._look = Look(self.clock(), standings)
        except Stopping:
            return 0.0  # closing is set
        except NotPermitted:
            self._look = Look(self.clock(), failure="this role may not look how far members are")
        except (psycopg.Error, MilepostError) as error:
            self._look = Look(self.clock(), failure=f"not reached: {type(error).__name__}")
        return self.limits.look_seconds

    def _standings(self, conn: Connection) -> dict[Key, Standing]:
        kinds = {member.kind for member in self.members if isinstance(member, Follower)}
        found: dict[Key, Standing] = {}
        if "processor" in kinds:
            found |= self._processors(conn)
        if "pipeline" in kinds:
            found |= self._pipelines(conn)
        if not kinds:
            db.check_schema(conn, self.runtime.schema)
        return found

    def _processors(self, conn: Connection) -> dict[Key, Standing]:
        return {
            ("processor", p.name, p.version): Standing(p.lag_seconds, p.state == "paused")
            for p in list_processors(conn, self.runtime.schema, max_counted=None)
        }

    def _pipelines(self, conn: Connection) -> dict[Key, Standing]:
        return {
            ("pipeline", p.name, None): Standing(p.lag_seconds, p.state == "paused")
            for p in list_pipelines(conn, self.runtime.schema, max_counted=None)
            if p.is_active
        }

    def _fail(self, error: BaseException) -> None:
        self._look = Look(self.clock(), failure=f"looking has ended with {type(error).__name__}")
