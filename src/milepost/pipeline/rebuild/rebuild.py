"""Fill a new version of a pipeline's table from the log, then let the target show it.

The old version is still read and written. The new one is filled to the end of the log in large
ranges, then to the old version's checkpoint, again and again, until one transaction finds that both
are equal: that transaction swaps them. The new version has its own checkpoint, so that a rebuild
that was killed continues where it stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from shlex import quote
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.checkpoints import CheckpointKey
from milepost.errors import CannotRebuild, MilepostError, RebuildFailed
from milepost.owner import owner_name
from milepost.pipeline import versions
from milepost.pipeline.rebuild.fill import FollowedStatus, RangeRebuild, StreamRebuild
from milepost.pipeline.rebuild.swap import Progress, RebuildSession, Swapped
from milepost.pipeline.run import PipelineStatus
from milepost.pipeline.sinks import Files, ToLog, ToQueue
from milepost.records import Position
from milepost.runtime import Supervisor

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.run import Setup

MOST_LOSSES = 10  # of the server, in a row
log = logging.getLogger("milepost.pipelines")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    name: str
    version: int
    replaced: int | None
    position: Position
    rows: int
    seconds: float
    is_old_dropped: bool


def refuse(options: PipelineOptions) -> None:
    """Pipelines that cannot be rebuilt."""
    sink = options.sink
    if isinstance(sink, ToLog | ToQueue):
        what = "append its messages" if isinstance(sink, ToLog) else "put its jobs"
        raise CannotRebuild(
            options.name, f"it would {what} a second time. Give the new output another name."
        )
    if isinstance(sink, Files):
        raise CannotRebuild(
            options.name,
            "files have no view that could be swapped. Make a pipeline of another name with "
            "another path, and point the readers there when it has caught up.",
        )
    if options.start_from == "end":
        raise CannotRebuild(
            options.name,
            "start_from is 'end', and the log does not tell where that was when it started. Give "
            "'beginning', a position or a time.",
        )


@dataclass(slots=True)
class Rebuild:
    setup: Setup
    to_version: int | None = None
    is_old_dropped: bool = False
    max_messages: int | None = None  # of a range; None: as many as fit the sink
    watch: Callable[[Progress], None] = lambda _: None
    most_losses: int = MOST_LOSSES
    owner: str = field(default_factory=owner_name)

    def run(self) -> Rebuilt:
        """Until the new version is swapped in. Waits for a server that restarts meanwhile."""
        refuse(self.setup.options)
        began = time.monotonic()
        setup, swapped = self.setup.as_built(self._register()), Swapped()
        status = FollowedStatus(owner=self.owner, schema=setup.schema, options=setup.options)
        self._fill_and_swap(setup, status, swapped)
        if self.is_old_dropped and swapped.replaces is not None:
            self._drop(swapped.replaces)
        return Rebuilt(
            name=self.setup.options.name,
            version=setup.options.version,
            replaced=swapped.replaces,
            position=swapped.position or Position.BEGINNING,
            rows=status.total_rows,
            seconds=time.monotonic() - began,
            is_old_dropped=self.is_old_dropped and swapped.replaces is not None,
        )

    def _fill_and_swap(self, setup: Setup, status: FollowedStatus, swapped: Swapped) -> None:
        def next_session() -> RebuildSession:
            if supervisor.losses > self.most_losses:
                raise self._given_up(supervisor.losses, status)
            kind = StreamRebuild if setup.options.stateful else RangeRebuild
            return kind(
                setup=setup,
                status=status,
                max_messages=self.max_messages,
                watch=self.watch,
                swapped=swapped,
            )

        supervisor = Supervisor(next_session, status, setup.url, "pipeline", stop=Event())
        supervisor.was_connected = True  # to register the version
        supervisor.run()

    def _given_up(self, losses: int, status: FollowedStatus) -> RebuildFailed:
        return RebuildFailed(
            self.setup.options.name,
            f"the server was lost {losses} times in a row while version {status.version} was "
            f"filled ({status.last_error.strip()}). Run the rebuild again when the server is "
            "available: it continues where it stopped.",
        )

    def _register(self) -> int:
        """The version to fill. An unknown table of the same name is not touched."""
        options = self.setup.options
        with self.setup.connected("milepost rebuild") as conn, conn.transaction():
            versions.lock_versions(conn, options.name, self.setup.schema)
            known = versions.load_versions(conn, options.name, self.setup.schema)
            version = versions.version_to_fill(options, known, self.to_version)
            built = options.as_built(version)
            if version not in [v.version for v in known]:
                self._refuse_table(conn, built)
            # It is not active yet, even if it is the first version.
            facts = PipelineStatus(
                owner=self.owner, schema=self.setup.schema, options=built
            ).facts()
            is_first = db.run(conn, self.setup.schema, "pipeline_register_rebuild", **facts) == 1
        log.info("rebuild=%s version=%s begins=%s", options.name, version, is_first)
        return version

    def _refuse_table(self, conn: Connection, options: PipelineOptions) -> None:
        table = options.table
        if table is None:
            return
        name = table.versioned(options.version)
        rows = db.fetch_all(
            conn, self.setup.schema, "target_relation", target_schema=table.schema, name=name
        )
        if rows and rows[0][1] is not None:
            raise CannotRebuild(
                options.name,
                f"there is a table {rows[0][0]}.{name} already, and it is not one of its versions. "
                "Drop it, or choose another version: --to-version N",
            )

    def _drop(self, replaced: int) -> None:
        name = self.setup.options.name
        try:
            with self.setup.connected("milepost rebuild") as conn:
                versions.drop(conn, CheckpointKey(name, replaced), self.setup.schema)
        except (psycopg.Error, MilepostError) as error:
            raise RebuildFailed(
                name,
                f"the new version is shown, but version {replaced} could not be dropped ({error}). "
                f"Run: milepost pipelines drop {quote(name)} --version {replaced}",
            ) from error
