"""Versions of a pipeline: each has a table and a checkpoint, and one of them is active.

The number in the code (`version=`) says what the rows mean. The number of a version says which
table. A driver runs only the active version, and only if code of the driver's number has filled it.
The other versions belong to a rebuild, or are kept for a rollback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost import db
from milepost.checkpoints import CheckpointKey
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
    is_built: bool  # has been active; otherwise a rebuild fills it, or was interrupted
    epoch: int
    checkpoint: Position | None


def version_to_run(options: PipelineOptions, known: Sequence[Version]) -> int:
    """Which version a driver with this code runs. Raises if there is none for it. Pure."""
    if options.table is None or not known:
        return options.code  # without a view there is nothing to swap
    active = active_of(known)
    if active is not None and active.code_version == options.code:
        return active.version
    kept = [v.version for v in known if v.is_built and v.code_version == options.code]
    raise OtherVersionActive(
        options.name,
        options.code,
        active=None if active is None else active.version,
        active_code_version=None if active is None else active.code_version,
        kept=max(kept, default=None),
    )


def version_to_fill(options: PipelineOptions, known: Sequence[Version], wanted: int | None) -> int:
    """Which version a rebuild fills: the requested one, or that of an interrupted rebuild of this
    code, or a new one. Pure."""
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


def version_to_write(options: PipelineOptions, known: Sequence[Version]) -> int:
    """Which version this code would write next: the one that a driver runs, or else the one that a
    rebuild fills. Pure."""
    try:
        return version_to_run(options, known)
    except OtherVersionActive:
        return version_to_fill(options, known, None)


def version_to_return_to(name: str, known: Sequence[Version], wanted: int | None) -> int:
    """Which version a rollback shows again: the requested one, or the highest kept one below the
    active one. Pure."""
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
    db.run(conn, schema, "pipeline_lock", pipeline=name)


def load_versions(conn: Connection, name: str, schema: str) -> list[Version]:
    rows = db.fetch_all(conn, schema, "pipeline_versions", pipeline=name)
    return [
        Version(number, code, is_active, is_built, epoch, None if at[1] is None else Position(*at))
        for number, code, is_active, is_built, epoch, *at in rows
    ]


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
    answer: Swap
    with db.acting(conn, "pipeline"):
        (answer,) = db.fetch_one(
            conn,
            schema,
            "swap_pipeline",
            pipeline=name,
            from_version=from_version,
            to_version=to_version,
            must_have_caught_up=must_have_caught_up,
        )
    return answer


def hold(conn: Connection, key: CheckpointKey, schema: str, seconds: float) -> None:
    """Tell the driver of a version to start no batch for so long."""
    name, version = key.processor, key.version
    db.run(conn, schema, "pipeline_hold", pipeline=name, version=version, seconds=seconds)


def drop(conn: Connection, key: CheckpointKey, schema: str) -> None:
    """Its table, its checkpoint and its row. Never the active version."""
    name, version = key.processor, key.version
    staging = staging_name(name, version)
    with db.acting(conn, "pipeline"):
        (answer,) = db.fetch_one(
            conn, schema, "drop_pipeline", pipeline=name, version=version, staging=staging
        )
    if answer == "missing":
        there_are = [v.version for v in load_versions(conn, name, schema)]
        raise UnknownVersion(name, version, there_are)
    if answer == "active":
        raise VersionInUse(name, version, IS_SHOWN)
