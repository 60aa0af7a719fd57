"""What follows the log: processors, the claims on their segments, pipelines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost import db
from milepost.archive import Archiver
from milepost.health.check import TOLD, Check, Limits, first_line, listed
from milepost.log.diagnosis import Problem
from milepost.pipeline.admin import PipelineStatus
from milepost.words import count, duration

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.admin import ProcessorStatus

Follower: TypeAlias = "ProcessorStatus | PipelineStatus"
Area: TypeAlias = Literal["processors", "pipelines"]
BETWEEN_LOOKS_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class UnfilledClaim:
    """An unclaimed segment of a processor that has running instances."""

    processor: str
    version: int
    segment: int
    instances: int
    expired_seconds: float | None  # None: it was released, at an unknown time


@dataclass(frozen=True, slots=True)
class SilentSession:
    """A session of a frozen instance, which keeps segments from the others."""

    processor: str
    version: int
    owner: str
    pid: int
    silent_seconds: float
    segments: list[int]


def processors_check(found: Sequence[ProcessorStatus], limits: Limits) -> Check:
    current = [
        status
        for status in _current(found)
        if status.name not in limits.ignored and status.name != Archiver.name  # has its own check
    ]
    problems = (*_problems(current, limits), *_set_aside(found, limits))
    return Check("processors", _detail(current, "processor"), problems)


def pipelines_check(found: Sequence[PipelineStatus], limits: Limits) -> Check:
    current = [p for p in found if p.state != "kept" and p.name not in limits.ignored]
    problems = (*_problems(current, limits), *_set_aside(found, limits))
    return Check("pipelines", _detail(current, "pipeline"), problems)


def unfilled_claims(conn: Connection, schema: str) -> list[UnfilledClaim]:
    return db.fetch_records(conn, schema, "health_claims", UnfilledClaim)


def silent_sessions(conn: Connection, schema: str, claim_seconds: float) -> list[SilentSession]:
    """Instances end them by themselves, where their role may."""
    found = "health_silent"
    return db.fetch_records(conn, schema, found, SilentSession, claim_seconds=claim_seconds)


def lasting_claims(
    look: Callable[[], list[UnfilledClaim]], claim_seconds: float
) -> list[UnfilledClaim]:
    """Those that stay unclaimed for `claim_seconds`. The time of a release is not stored, so such a
    segment is watched: an instance with room claims it at its next heartbeat."""
    deadline = time.monotonic() + claim_seconds
    found = look()
    while any(_is_fresh(claim, claim_seconds) for claim in found) and time.monotonic() < deadline:
        time.sleep(min(BETWEEN_LOOKS_SECONDS, claim_seconds))
        still = {(c.processor, c.version, c.segment) for c in look()}
        found = [c for c in found if (c.processor, c.version, c.segment) in still]
    return found


def claims_check(
    unfilled: Sequence[UnfilledClaim], silent: Sequence[SilentSession], limits: Limits
) -> Check:
    frozen = [_frozen(session) for session in silent if session.processor not in limits.ignored]
    kept = [claim for claim in unfilled if claim.processor not in limits.ignored]
    names = sorted({claim.processor for claim in kept})
    if not kept and not frozen:
        return Check("claims", "every segment of a running processor is claimed")
    unclaimed = [_unclaimed(name, [c for c in kept if c.processor == name]) for name in names]
    detail = f"{count(len(kept), 'segment')} unclaimed"
    return Check("claims", detail, (*frozen, *unclaimed))


def _is_fresh(claim: UnfilledClaim, claim_seconds: float) -> bool:
    return claim.expired_seconds is None or claim.expired_seconds < claim_seconds


def _frozen(session: SilentSession) -> Problem:
    numbers = listed([str(segment) for segment in session.segments])
    segments = "segment" if len(session.segments) == 1 else "segments"
    return Problem(
        "claims",
        f"Processor {session.processor!r}: session {session.pid} keeps {segments} {numbers}; its "
        f"instance {session.owner} has been silent for {duration(session.silent_seconds)}",
        f"end it: select pg_terminate_backend({session.pid}); then restart or thaw that process",
    )


def _unclaimed(name: str, claims: list[UnfilledClaim]) -> Problem:
    numbers = listed([str(claim.segment) for claim in claims])
    segments = "segment" if len(claims) == 1 else "segments"
    running = count(claims[0].instances, "running instance")
    return Problem(
        "claims",
        f"Processor {name!r}: no instance has claimed {segments} {numbers}, with {running}",
        f"check their errors: milepost processors segments {quote(name)}; "
        "then restart its instances",
    )


def _current(found: Sequence[ProcessorStatus]) -> list[ProcessorStatus]:
    """Without stopped versions that have a newer one."""
    newest: dict[str, int] = {}
    for status in found:
        newest[status.name] = max(status.version, newest.get(status.name, 0))
    return [p for p in found if p.version == newest[p.name] or p.state != "stopped"]


def _detail(current: Sequence[Follower], noun: str) -> str:
    if not current:
        return f"no {noun} has run on this log"
    states = Counter(status.state for status in current)
    counts = ", ".join(f"{number} {state}" for state, number in states.most_common())
    behind = max((status.lag_seconds for status in current), default=0.0)
    return counts + (f", up to {duration(behind)} behind" if behind else ", none behind")


def _problems(current: Sequence[Follower], limits: Limits) -> tuple[Problem, ...]:
    failed = [p for p in current if p.state == "failed"]
    silent = [
        p for p in current if p.state == "silent" and p.silent_seconds >= limits.silent_seconds
    ]
    told = {id(status) for status in (*failed, *silent)}
    lagging = [
        status
        for status in current
        if id(status) not in told
        and status.state != "paused"
        and status.lag_seconds >= limits.lag_seconds
    ]
    return (
        *_told(failed, "have failed", _failed),
        *_told(silent, "are silent", _silent),
        *_told(lagging, "are behind", _lagging),
    )


def _set_aside(found: Sequence[Follower], limits: Limits) -> Iterator[Problem]:
    """Of every version: messages that are set aside stay so until somebody decides."""
    kept = [status for status in found if status.name not in limits.ignored]
    parking = [p for p in kept if _parked_keys(p) > limits.parked_keys]
    lettered = [p for p in kept if p.dead_letters > limits.dead_letters and p not in parking]
    yield from _told(parking, "have parked keys", _parked)
    yield from _told(lettered, "have dead letters", _lettered)


def _parked_keys(status: Follower) -> int:
    return 0 if isinstance(status, PipelineStatus) else status.parked_keys


def _parked(status: Follower) -> Problem:
    keys, letters = _parked_keys(status), count(status.dead_letters, "message")
    verb = "is" if keys == 1 else "are"
    return Problem(
        _area(status),
        f"{_title(status)}: {count(keys, 'key')} {verb} parked, with {letters} that are not "
        "handled",
        f"fix the cause: {_letters_command(status)}; then retry the first message of each key",
    )


def _lettered(status: Follower) -> Problem:
    letters = count(status.dead_letters, "message")
    verb = "was" if status.dead_letters == 1 else "were"
    return Problem(
        _area(status),
        f"{_title(status)}: {letters} {verb} set aside and not handled",
        f"see why: {_letters_command(status)}; then retry or drop them",
    )


def _letters_command(status: Follower) -> str:
    return f"milepost dead-letters list --processor {quote(status.name)}"


def _told(
    found: Sequence[Follower], kind: str, tell: Callable[[Follower], Problem]
) -> Iterator[Problem]:
    """The first few separately, the others together."""
    yield from map(tell, found[:TOLD])
    if more := found[TOLD:]:
        names = listed([status.name for status in more])
        area = _area(found[0])
        yield Problem(area, f"{len(more)} more {area} {kind}: {names}", f"milepost {area}")


def _failed(status: Follower) -> Problem:
    cause = first_line(status.last_error or "no error was reported")
    name = status.name
    remedy = "fix the cause and start it again: milepost run MODULE:NAME"
    if _area(status) == "processors":
        remedy += f"; or set the message aside: milepost processors skip {quote(name)}"
    elif _is_rebuild(status):
        remedy = f"milepost pipelines rebuild {quote(name)} MODULE:NAME"
    return Problem(_area(status), f"{_title(status)} has failed: {cause}", remedy)


def _silent(status: Follower) -> Problem:
    what = f"has not reported for {duration(status.silent_seconds)}: its process is gone or hangs"
    again = "milepost run MODULE:NAME"
    if _is_rebuild(status):
        again = f"milepost pipelines rebuild {quote(status.name)} MODULE:NAME"
    return Problem(_area(status), f"{_title(status)} {what}", f"start it again: {again}")


def _lagging(status: Follower) -> Problem:
    area = _area(status)
    what = f"is {status.state} and {duration(status.lag_seconds)} behind"
    if status.state == "stopped":
        return Problem(area, f"{_title(status)} {what}", "start it: milepost run MODULE:NAME")
    error = f"; last error: {first_line(status.last_error)}" if status.last_error else ""
    remedy = f"check whether it makes progress: milepost {area} show {quote(status.name)}"
    return Problem(area, f"{_title(status)} {what}{error}", remedy)


def _title(status: Follower) -> str:
    version = f" version {status.version}" if status.version > 1 else ""
    return f"{_area(status)[:-1].capitalize()} {status.name!r}{version}"


def _area(status: Follower) -> Area:
    return "pipelines" if isinstance(status, PipelineStatus) else "processors"


def _is_rebuild(status: Follower) -> bool:
    """Whether it is a version that is being filled and is not shown yet."""
    return isinstance(status, PipelineStatus) and status.built_at is None
