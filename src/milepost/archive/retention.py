"""Remove what is old from the log, in small steps, and never what a consumer still has to read.

A step deletes some messages and raises the marker up to which messages are removed, in one
transaction (remove_messages.sql). Whoever reads from a position below the marker is refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from milepost import db, sql
from milepost.errors import NoRetention
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection

# A step holds its locks for about so long. Resets wait for it.
STEP_SECONDS = 0.02
FIRST_STEP, LARGEST_STEP = 500, 20_000


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept: messages that are younger than `keep`, and the newest `keep_messages`. If both
    are given, both are kept."""

    keep: timedelta | None = None
    keep_messages: int | None = None

    def __post_init__(self) -> None:
        if self.keep is None and self.keep_messages is None:
            raise ValueError("A retention policy needs keep, keep_messages, or both.")
        if self.keep is not None and self.keep < timedelta(0):
            raise ValueError(f"keep is {self.keep}: expected a time that is not negative.")
        if self.keep_messages is not None and self.keep_messages < 0:
            raise ValueError(f"keep_messages is {self.keep_messages}: expected at least 0.")


@dataclass(frozen=True, slots=True)
class Gate:
    """The checkpoint of a consumer. No message after it is removed."""

    consumer: str
    version: int
    segment: int
    position: Position


@dataclass(frozen=True, slots=True)
class RetentionState:
    """`limit`: the last position that the policy allows to remove. `removed`: the last one that is
    removed. `gates`: the lowest first."""

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


def set_policy(conn: Connection, policy: Policy, schema: str = sql.DEFAULT_SCHEMA) -> None:
    """In the transaction that is open on the connection, if any. Only the owner of the schema may
    decide what is removed."""
    with db.owning(conn, schema):
        db.run(conn, schema, "retention_set", keep=policy.keep, keep_messages=policy.keep_messages)


def unset_policy(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> None:
    """From now on everything is kept."""
    with db.owning(conn, schema):
        db.run(conn, schema, "retention_unset")


def retention_state(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> RetentionState:
    keep, keep_messages, *positions = db.fetch_one(conn, schema, "retention_state")
    is_set = keep is not None or keep_messages is not None
    limit, removed = Position(*positions[:2]) if is_set else None, Position(*positions[2:])
    rows = db.fetch_all(conn, schema, "retention_gates")
    gates = [Gate(name, version, segment, Position(*at)) for name, version, segment, *at in rows]
    return RetentionState(Policy(keep, keep_messages) if is_set else None, limit, removed, gates)


def remove_old(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> Removal:
    """Remove what the policy does not keep and every consumer has passed. The connection must be in
    autocommit mode: each step commits."""
    state = retention_state(conn, schema)
    if state.policy is None or state.limit is None:
        raise NoRetention(schema)
    done, step = Removal(0, state.removed), FIRST_STEP
    while True:
        begun = time.monotonic()
        number, *removed = _remove_some(conn, schema, step, state.limit)
        done = replace(done, number=done.number + number, removed=Position(*removed))
        if number < step:
            return done
        step = next_step(step, time.monotonic() - begun)


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
    return max(1, min(fitting, LARGEST_STEP))
