"""`milepost processors segments|split|merge|balance`: how a processor's work is divided."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, TypeAlias

import typer

from milepost.app import Milepost
from milepost.checkpoints import CheckpointKey
from milepost.cli import options, output
from milepost.cli.following import as_document, print_error, progress_cells
from milepost.processors import admin
from milepost.processors.segments import operations
from milepost.processors.segments.operations import SegmentStatus, list_segments
from milepost.records import Segment
from milepost.words import count

SegmentId: TypeAlias = Annotated[int | None, typer.Argument(metavar="[SEGMENT]", min=0)]
Timeout: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for the owners to release the segments.")
]


def segments(
    mp: Milepost,
    name: options.Name,
    version: options.Version = None,
    as_json: options.AsJson = False,
) -> None:
    """List the segments of a processor: owner, position and lag."""
    with mp.connect() as conn:
        found = list_segments(conn, mp.schema, admin.find(conn, mp.schema, name, version))
    show = partial(_print_segments, name)
    output.print_listing(found, as_document, show, as_json=as_json)


def split(
    mp: Milepost,
    name: options.Name,
    segment: SegmentId = None,
    to: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=operations.MAX_SEGMENTS,
            help="Split the widest ones until there are this many.",
        ),
    ] = None,
    version: options.Version = None,
    timeout: Timeout = operations.TIMEOUT_SECONDS,
) -> None:
    """Split a segment into two while the processor runs. Default: the widest segment."""
    key = _found(mp, name, version)
    if to is not None:
        if segment is not None:
            raise typer.BadParameter("pass a segment, or --to", param_hint="--to")
        done = operations.split_to(mp.connect, mp.schema, key, to, timeout)
        typer.echo(
            f"{key.processor}: {count(done, 'segment')} split, for {to} in all"
            if done
            else f"{key.processor}: has at least {to} segments, nothing to split"
        )
        return
    _say_split(key, operations.split(mp.connect, mp.schema, key, segment, timeout))


def merge(
    mp: Milepost,
    name: options.Name,
    segment: SegmentId = None,
    version: options.Version = None,
    timeout: Timeout = operations.TIMEOUT_SECONDS,
) -> None:
    """Merge a segment with its other half while the processor runs. Default: the narrowest ones."""
    key = _found(mp, name, version)
    merged = operations.merge(mp.connect, mp.schema, key, segment, timeout)
    typer.echo(f"{key.processor}: merged into segment {merged}")


def balance(
    mp: Milepost,
    name: options.Name,
    version: options.Version = None,
    timeout: Timeout = operations.TIMEOUT_SECONDS,
) -> None:
    """Split the segment that is furthest behind."""
    key = _found(mp, name, version)
    halves = operations.balance(mp.connect, mp.schema, key, timeout)
    if halves is None:
        typer.echo(f"{key.processor}: no segment is behind, nothing to split")
    else:
        _say_split(key, halves)


def _found(mp: Milepost, name: str, version: int | None) -> CheckpointKey:
    with mp.connect() as conn:
        return admin.find(conn, mp.schema, name, version)


def _say_split(key: CheckpointKey, halves: tuple[Segment, Segment]) -> None:
    first, second = halves
    typer.echo(f"{key.processor}: split segment {first.id} into {first.id} and {second.id}")


def _print_segments(name: str, found: Sequence[SegmentStatus]) -> None:
    rows, right = [_cells(status) for status in found], ("segment", "lag", "epoch")
    output.print_table(rows, f"{name} has no segments", right=right, wrapped="owner")
    for status in found:
        print_error(f"segment {status.id}", status)
        if status.kept_by is not None:
            output.print_remark(
                f"segment {status.id}: `select pg_terminate_backend({status.kept_by})` ends the "
                "session of a frozen instance that keeps it",
                "red",
            )


def _cells(status: SegmentStatus) -> dict[str, str]:
    owner = status.owner or (f"wanted by {status.wanted_by}" if status.wanted_by else "-")
    return {
        "segment": str(status.id),
        "mask": f"{status.mask:b}",
        **progress_cells(status),
        "epoch": str(status.epoch),
        "owner": output.fitted(owner, 24),
    }
