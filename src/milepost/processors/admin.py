"""What operators do with processors: list, find, pause, resume, abandon."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from milepost import db
from milepost.checkpoints import CheckpointKey
from milepost.errors import ProcessorRunning, UnknownProcessor
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection

_NOT_RUNNING = ("stopped", "failed", "silent", "paused")
_IN_ERROR = ("failed", "reconnecting", "waiting", "retrying", "silent", "starting")


@dataclass(frozen=True, slots=True)
class ProcessorStatus:
    """How a processor fares. `state` is 'silent' where one that should report does not."""

    name: str
    version: int
    transaction_id: int | None
    position: int | None
    lag_messages: int
    is_lag_exact: bool
    lag_seconds: float
    state: str
    owner: str | None
    rate: float
    handled: int
    last_error: str | None
    last_error_at: datetime | None
    updated_at: datetime | None
    dead_letters: int
    mode: str | None  # how self-checkpointing handlers move it: 'auto' or 'deferred'
    segments: int | None
    parked_keys: int
    is_replaying: bool  # it handles again what it had handled before a reset
    silent_seconds: float  # since it last reported
    # Of self-checkpointing handlers: up to where messages were given to all of them, and how many
    # were not given to them yet. What was handled and is not durable is in lag_messages only.
    handled_transaction_id: int | None = None
    handled_position: int | None = None
    unhandled_messages: int | None = None

    @property
    def is_recovered(self) -> bool | None:
        """From its last error. None if there was none."""
        return is_recovered(
            self.state, self.lag_messages, failed_at=self.last_error_at, moved_at=self.updated_at
        )

    @property
    def checkpoint(self) -> Position | None:
        if self.transaction_id is None or self.position is None:
            return None
        return Position(self.transaction_id, self.position)

    @property
    def handled_up_to(self) -> Position | None:
        if self.handled_transaction_id is None or self.handled_position is None:
            return None
        return Position(self.handled_transaction_id, self.handled_position)


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """A process that runs a processor with segments, and how many of them it has claimed."""

    owner: str
    started_at: datetime
    alive_until: datetime
    rate: float
    segments: int


def is_recovered(
    state: str, lag_messages: int, *, failed_at: datetime | None, moved_at: datetime | None
) -> bool | None:
    """Whether it works again since its last error: its checkpoint has moved, or nothing is left to
    do. One that is started again after an error and meets it again has done neither. None if there
    was no error. Pure."""
    if failed_at is None:
        return None
    if state in _IN_ERROR:
        return False
    return lag_messages == 0 or (moved_at is not None and moved_at > failed_at)


def list_processors(
    conn: Connection, schema: str, name: str | None = None
) -> list[ProcessorStatus]:
    """A lag is counted while it is small, and else estimated: see `is_lag_exact`."""
    return db.fetch_records(conn, schema, "processor_list", ProcessorStatus, name=name)


def find(conn: Connection, schema: str, name: str, version: int | None = None) -> CheckpointKey:
    """The processor of that name; its newest version unless one is given."""
    known = list_processors(conn, schema)
    versions = [p.version for p in known if p.name == name]
    if not versions or (version is not None and version not in versions):
        wanted = name if version is None else f"{name} version {version}"
        raise UnknownProcessor(wanted, sorted({p.name for p in known}))
    return CheckpointKey(name, max(versions) if version is None else version)


def list_instances(conn: Connection, schema: str, key: CheckpointKey) -> list[InstanceStatus]:
    """Those that are alive, the oldest first; none for a processor without segments."""
    return db.fetch_records(conn, schema, "processor_instances", InstanceStatus, **key.parameters())


def set_paused(conn: Connection, schema: str, key: CheckpointKey, *, is_paused: bool) -> None:
    """Takes effect within two seconds; the running batch is finished."""
    db.run(conn, schema, "processor_pause", **key.parameters(), is_paused=is_paused)


def abandon(conn: Connection, schema: str, key: CheckpointKey) -> None:
    """Forget it, with its dead letters, so that it no longer keeps messages in the log."""
    (found,) = [p for p in list_processors(conn, schema, key.processor) if p.version == key.version]
    if found.state not in _NOT_RUNNING:
        raise ProcessorRunning(key.processor, found.state, found.owner)
    with db.owning(conn, schema):
        db.fetch_one(conn, schema, "processor_abandon", **key.parameters())


def has_reset_handlers(conn: Connection, schema: str, key: CheckpointKey) -> bool:
    rows = db.fetch_all(conn, schema, "processor_reset_handlers", **key.parameters())
    return bool(rows) and bool(rows[0][0])
