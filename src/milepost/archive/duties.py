"""What the retention policy wants to be done all the time, by any process that may.

A policy may be set while processes run. The watcher asks for it every few seconds, for the whole
process, and the members that do the work begin when there is any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from milepost import db
from milepost.errors import BudgetTooSmall, NotPermitted

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.runtime import Member, Runtime, Until
    from milepost.sql import Activity

log = logging.getLogger("milepost.archive")
LOOK_SECONDS = 0.5  # how soon what the watcher has found is noticed


@dataclass(frozen=True, slots=True)
class Duties:
    """`archives`, `removes`: the policy wants it. `may_...`: this role may do it."""

    archives: bool
    may_archive: bool
    removes: bool
    may_remove: bool


NOTHING = Duties(archives=False, may_archive=False, removes=False, may_remove=False)


def duties_of(conn: Connection, schema: str) -> Duties:
    (found,) = db.fetch_records(conn, schema, "retention_duties", Duties)
    return found


class PolicyWatch:
    """What was found last: `runtime.part(PolicyWatch)`. None: nobody has looked yet."""

    def __init__(self, runtime: Runtime) -> None:
        self._schema = runtime.schema
        self.found: Duties | None = None
        runtime.add_chore(runtime.timing.policy_seconds, self.look)

    def look(self, conn: Connection) -> None:
        if self.found == NOTHING:
            return
        try:
            self.found = duties_of(conn, self._schema)
        except NotPermitted:  # a role whose privileges are of an earlier release; not asked again
            self.found = NOTHING


@dataclass(slots=True)
class WhenWanted:
    """Runs a member once the policy wants what it does, if this role may do that. A role that may
    not is told once: another process has to do it."""

    member: Member
    runtime: Runtime
    is_wanted: Callable[[Duties], bool]
    is_permitted: Callable[[Duties], bool]
    _is_told: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def activity(self) -> Activity:
        return self.member.activity

    @property
    def own_connections(self) -> int:
        """None, as long as nothing is wanted."""
        return 0

    def run(self, until: Until, stop: Event) -> None:
        while not stop.is_set():
            if self._may_run():
                self.member.run(until, stop)
                return
            if until != "stopped":
                return
            stop.wait(LOOK_SECONDS)

    def caught_up(self) -> bool:
        return not self._may_run() or self.member.caught_up()

    def _may_run(self) -> bool:
        found = self.runtime.part(PolicyWatch).found
        if found is None or not self.is_wanted(found):
            return False
        refusal = self._refusal(found)
        if refusal is not None and not self._is_told:
            log.warning("member=%s does not run here: %s", self.name, refusal)
            self._is_told = True
        return refusal is None

    def _refusal(self, found: Duties) -> str | None:
        if not self.is_permitted(found):
            return "this role may not do it (docs/retention.md says which may)"
        try:
            self.runtime.reserve([self.member])
        except BudgetTooSmall as error:
            return str(error)
        return None
