"""Versions of a pipeline: a table each, with a checkpoint, one of them active.

The number in the code (`version=`) says what the rows mean; the number of a version says which
table. A driver runs the active version if that was filled by code of its own number, and nothing
else: the rest is a rebuild's, or kept to go back to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost import sql
from milepost.checkpoints import CheckpointKey
from milepost.db import one, translated
from milepost.errors import CannotRebuild, OtherVersionActive, UnknownVersion, VersionInUse
from milepost.pipeline.names import staging_name
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions

Swap: TypeAlias = Literal["swapped", "behind", "changed", "missing"]
IS_SHOWN = "is the active one, which its target shows"


@dataclass(frozen=True, slots=True)
class Version:
    """One version as the database knows it."""

    version: int
    code_version: int
    is_active: bool
    is_built: bool  # has been active; else a rebuild is filling it, or was
    epoch: int
    checkpoint: Position | None


def version_to_run(options: PipelineOptions, known: Sequence[Version]) -> int:
    """Which version a driver with this code runs. Pure; refuses where there is none for it."""
    if options.table is None or not known:
        return options.code  # a sink without a view has nothing to swap
    active = active_of(known)
    if active is not None and active.code_version == options.code:
        return active.version
    kept = [v.version for v in known if v.is_built and v.code_version == options.code]
    raise OtherVersionActive(
        options.name,
        options.code,
        None if active is None else active.version,
        None if active is None else active.code_version,
        max(kept, default=None),
    )


def version_to_fill(options: PipelineOptions, known: Sequence[Version], wanted: int | None) -> int:
    """Which version a rebuild fills: the one that was asked for, or that an interrupted rebuild
    of this code began, or a new one. Pure."""
    begun = [v.version for v in known if not v.is_built and v.code_version == options.code]
    if wanted is None:
        following = max((v.version + 1 for v in known), default=1)
        return max(begun) if begun else max(following, options.code)
    if wanted < 1:
        raise CannotRebuild(options.name, "a version is at least 1.")
    found = next((v for v in known if v.version == wanted), None)
    if found is None or wanted in begun:
        return wanted
    if found.is_active:
        raise VersionInUse(options.name, wanted, "is the active one: rebuild into another")
    if found.is_built:
        raise VersionInUse(options.name, wanted, "is kept from earlier: drop it first")
    raise VersionInUse(
        options.name,
        wanted,
        f"was begun by code of version {found.code_version}, this is {options.code}: drop it first",
    )


def version_to_return_to(name: str, known: Sequence[Version], wanted: int | None) -> int:
    """Which version a rollback shows again: the highest kept one below the active one, unless
    another was asked for. Pure."""
    active = active_of(known)
    built = [v.version for v in known if v.is_built and not v.is_active]
    if wanted is not None:
        if wanted not in built:
            raise UnknownVersion(name, wanted, built)
        return wanted
    below = [version for version in built if active is None or version < active.version]
    if not below:
        raise UnknownVersion(name, None, built)
    return max(below)


def active_of(known: Sequence[Version]) -> Version | None:
    return next((v for v in known if v.is_active), None)


def lock_versions(conn: Connection, name: str, schema: str) -> None:
    """Until the transaction ends, nobody else chooses or registers a version of the pipeline."""
    with translated(schema):
        conn.execute(sql.query("pipeline_lock", schema), {"pipeline": name})


def load_versions(conn: Connection, name: str, schema: str) -> list[Version]:
    with translated(schema):
        rows = conn.execute(sql.query("pipeline_versions", schema), {"pipeline": name}).fetchall()
    return [_version(*row) for row in rows]


def _version(
    version: int,
    code_version: int,
    is_active: bool,
    is_built: bool,
    epoch: int,
    transaction_id: int | None,
    position: int | None,
) -> Version:
    checkpoint = None
    if transaction_id is not None and position is not None:
        checkpoint = Position(transaction_id, position)
    return Version(version, code_version, is_active, is_built, epoch, checkpoint)


def activate(conn: Connection, key: CheckpointKey, schema: str) -> None:
    """For a sink without a view: the version in the code is the active one."""
    parameters = {"pipeline": key.processor, "version": key.version}
    with translated(schema):
        conn.execute(sql.query("activate_pipeline", schema), parameters)


def swap(
    conn: Connection,
    name: str,
    schema: str,
    from_version: int | None,
    to_version: int,
    *,
    must_have_caught_up: bool = True,
) -> Swap:
    """Show another version, in one transaction."""
    parameters = {
        "pipeline": name,
        "from_version": from_version,
        "to_version": to_version,
        "must_have_caught_up": must_have_caught_up,
    }
    with translated(schema, "pipeline", conn):
        row = conn.execute(sql.query("swap_pipeline", schema), parameters).fetchone()
    answer: Swap = one(row)[0]
    return answer


def hold(conn: Connection, key: CheckpointKey, schema: str, seconds: float) -> None:
    """Ask the driver of a version to begin no batch for so long."""
    parameters = {"pipeline": key.processor, "version": key.version, "seconds": seconds}
    with translated(schema):
        conn.execute(sql.query("pipeline_hold", schema), parameters)


def drop(conn: Connection, key: CheckpointKey, schema: str) -> None:
    """Its table, its checkpoint and what is known of it. Never the active one."""
    name, version = key.processor, key.version
    parameters = {
        "pipeline": name,
        "version": version,
        "staging": staging_name(name, version),
    }
    with translated(schema, "pipeline", conn):
        row = conn.execute(sql.query("drop_pipeline", schema), parameters).fetchone()
    answer = one(row)[0]
    if answer == "missing":
        there_are = [v.version for v in load_versions(conn, name, schema)]
        raise UnknownVersion(name, version, there_are)
    if answer == "active":
        raise VersionInUse(name, version, IS_SHOWN)
