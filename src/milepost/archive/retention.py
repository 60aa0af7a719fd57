"""Remove what is old from the log, in small steps, and never what a consumer still has to read.

A step deletes some messages and raises the marker up to which messages are removed, in one
transaction (remove_messages.sql). Whoever reads from a position below the marker reads the archive,
or is refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from milepost import db, sql
from milepost.errors import NoRetention
from milepost.log.history import Location
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.db import Connection

# A step holds its locks for about so long. Resets wait for it.
STEP_SECONDS = 0.01
# The first step is also the smallest: where each call takes long whatever it removes (a distant
# server), smaller steps would only be more calls, in the end one for each message.
FIRST_STEP, LARGEST_STEP = 50, 20_000
# Of its time in which a removal works; the rest is left to those who append. Nobody waits for it.
SHARE = 0.1
# So many messages are examined to find out what the policy allows to remove next.
MAX_WALKED = 1_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept: messages that are younger than `keep`, and the newest `keep_messages`. If both
    are given, both are kept; if none, everything is.

    `archive`: where messages go before they are removed, a directory or an address as
    `s3://bucket/prefix`; None: what is removed is gone. `archive_after`: archive what is older,
    also while it is kept; None: archive what may be removed, or everything, if nothing may."""

    keep: timedelta | None = None
    keep_messages: int | None = None
    archive: str | None = None
    archive_after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.keep is None and self.keep_messages is None and self.archive is None:
            raise ValueError("A retention policy needs keep, keep_messages or archive.")
        if self.archive_after is not None and self.archive is None:
            raise ValueError("archive_after needs an archive: pass archive as well.")
        for name in ("keep", "archive_after"):
            if (time_ := getattr(self, name)) is not None and time_ < timedelta(0):
                raise ValueError(f"{name} is {time_}: expected a time that is not negative.")
        if self.keep_messages is not None and self.keep_messages < 0:
            raise ValueError(f"keep_messages is {self.keep_messages}: expected at least 0.")

    @property
    def removes(self) -> bool:
        return self.keep is not None or self.keep_messages is not None


@dataclass(frozen=True, slots=True)
class Gate:
    """The checkpoint of a consumer, or the end of the archive. No message after it is removed."""

    consumer: str
    version: int
    segment: int
    position: Position


@dataclass(frozen=True, slots=True)
class RetentionState:
    """`limit`: the last position that the policy allows to remove, among the next MAX_WALKED
    messages; None if it does not allow to remove any. `removed`: the last one that is removed.
    `gates`: the lowest first."""

    policy: Policy | None
    limit: Position | None
    removed: Position
    gates: list[Gate]

    @property
    def blocking(self) -> list[Gate]:
        """The consumers that keep messages which the policy would remove."""
        limit = self.limit
        return [] if limit is None else [gate for gate in self.gates if gate.position < limit]


@dataclass(frozen=True, slots=True)
class Removal:
    """How many messages were removed, and the position up to which all are."""

    number: int
    removed: Position


def set_policy(conn: Connection, policy: Policy, schema: str = sql.DEFAULT_SCHEMA) -> Policy:
    """In the transaction that is open on the connection, if any. Only the owner of the schema may
    decide what is removed. Returns what was stored: with an absolute path, if the archive is a
    directory."""
    if policy.archive is not None:
        policy = replace(policy, archive=Location.parse(policy.archive).address)
    with db.owning(conn, schema):
        db.run(
            conn,
            schema,
            "retention_set",
            keep=policy.keep,
            keep_messages=policy.keep_messages,
            archive=policy.archive,
            archive_after=policy.archive_after,
        )
    return policy


def unset_policy(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> None:
    """From now on everything is kept, and nothing is archived."""
    with db.owning(conn, schema):
        db.run(conn, schema, "retention_unset")


def retention_state(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> RetentionState:
    is_set, keep, keep_messages, archive, archive_after, *at = db.fetch_one(
        conn, schema, "retention_state", max_walked=MAX_WALKED
    )
    policy = Policy(keep, keep_messages, archive, archive_after) if is_set else None
    limit, removed = None if at[0] is None else Position(*at[:2]), Position(*at[2:])
    rows = db.fetch_all(conn, schema, "retention_gates")
    gates = [Gate(name, version, segment, Position(*at)) for name, version, segment, *at in rows]
    return RetentionState(policy, limit, removed, gates)


def remove_old(
    conn: Connection,
    schema: str = sql.DEFAULT_SCHEMA,
    *,
    is_over: Callable[[], bool] = lambda: False,
    share: float = SHARE,
) -> Removal:
    """Remove what the policy does not keep and every consumer has passed, or some of it, once it
    `is_over`. The connection must be in autocommit mode: each step commits. `share`: of its time in
    which it works, 1 for as fast as possible."""
    if not 0 < share <= 1:
        raise ValueError(f"share is {share}: expected more than 0, at most 1.")
    total = 0
    while True:
        state = retention_state(conn, schema)
        if state.policy is None or state.limit is None:
            raise NoRetention(schema)
        done = _remove_up_to(conn, schema, state.limit, is_over, share)
        total += done.number
        if done.number < MAX_WALKED or is_over():
            return replace(done, number=total)


def _remove_up_to(
    conn: Connection, schema: str, up_to: Position, is_over: Callable[[], bool], share: float
) -> Removal:
    done, step = Removal(0, Position.BEGINNING), FIRST_STEP
    while True:
        begun = time.monotonic()
        number, *removed = _remove_some(conn, schema, step, up_to)
        done = Removal(done.number + number, Position(*removed))
        if number < step or is_over():
            return done
        seconds = time.monotonic() - begun
        step = next_step(step, seconds)
        time.sleep(rest_seconds(seconds, share))


def _remove_some(conn: Connection, schema: str, count: int, up_to: Position) -> tuple[int, ...]:
    found: tuple[int, ...]
    with db.owning(conn, schema):
        found = db.fetch_one(
            conn,
            schema,
            "remove_messages",
            max_count=count,
            transaction_id=up_to.transaction_id,
            position=up_to.position,
        )
    return found


def next_step(step: int, seconds: float) -> int:
    """As many as fit into STEP_SECONDS; at most twice as many as before."""
    fitting = int(step * STEP_SECONDS / max(seconds, STEP_SECONDS / 2))
    return max(FIRST_STEP, min(fitting, LARGEST_STEP))


def rest_seconds(worked_seconds: float, share: float) -> float:
    return worked_seconds * (1 / share - 1)
