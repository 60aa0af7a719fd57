"""Advisory locks have no owner: a role that may only connect can take those of Milepost, and stop
what waits for them or does without. The check names such sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.health.check import Check, Limits
from milepost.log.diagnosis import Problem
from milepost.words import count, duration

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class AdvisoryLock:
    """A session with a lock of ours for which others wait, or for which its role has no use."""

    what: str
    pid: int
    username: str
    application: str
    seconds: float | None  # None: hidden from us
    is_awaited: bool
    is_stranger: bool


def advisory_check(found: Sequence[AdvisoryLock], limits: Limits) -> Check:
    """Leave out locks held for a moment: appends and puts take them too."""
    lasting = [s for s in found if s.seconds is None or s.seconds >= limits.warn_seconds]
    what = count(len(lasting), "lock")
    detail = f"{what} of ours to look at" if lasting else "no lock of ours is misused"
    return Check("advisory", detail, tuple(map(_problem, lasting)))


def _problem(lock: AdvisoryLock) -> Problem:
    since = "a time that is hidden from this role"
    if lock.seconds is not None:
        since = duration(lock.seconds)
    reasons = ["its role has no use for it"] * lock.is_stranger
    reasons += ["others wait for it"] * lock.is_awaited
    return Problem(
        "advisory",
        f"pid {lock.pid} (role {lock.username!r}, application {lock.application!r}) has locked "
        f"{lock.what}, or waits to, for {since}: {' and '.join(reasons)}",
        f"end it: select pg_terminate_backend({lock.pid})",
        is_unknown=lock.seconds is None,
    )
