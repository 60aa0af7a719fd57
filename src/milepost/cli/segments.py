"""`milepost processors segments|split|merge|balance`: how a processor's work is cut up."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.output import console, duration, fitted, print_json
from milepost.processors import admin
from milepost.processors.segmented import operator
from milepost.processors.segmented.listing import list_segments

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.processors.segmented.listing import SegmentStatus
    from milepost.records import Segment

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME")]
SegmentId: TypeAlias = Annotated[int | None, typer.Argument(metavar="[SEGMENT]", min=0)]
Version: TypeAlias = Annotated[
    int | None, typer.Option(help="Its newest version, unless one is given.")
]
Timeout: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for the owners to release them.")
]


def segments(
    name: Name,
    version: Version = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Its segments: who has them, where they stand, how far they are behind."""
    with open_log(url, schema).connect() as conn:
        found = list_segments(conn, schema, admin.find(conn, schema, name, version))
    if as_json:
        print_json([as_document(status) for status in found])
    else:
        _print_table(name, found)


def split(
    name: Name,
    segment: SegmentId = None,
    version: Version = None,
    timeout: Timeout = operator.TIMEOUT_SECONDS,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Cut a segment in two, while it runs; the widest one, unless one is named."""
    mp = open_log(url, schema)
    with mp.connect() as conn:
        key = admin.find(conn, schema, name, version)
    _say_split(key, operator.split(mp.connect, schema, key, segment, timeout))


def merge(
    name: Name,
    segment: SegmentId = None,
    version: Version = None,
    timeout: Timeout = operator.TIMEOUT_SECONDS,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Make one segment of two halves, while it runs; of the narrowest ones, unless one is named."""
    mp = open_log(url, schema)
    with mp.connect() as conn:
        key = admin.find(conn, schema, name, version)
    merged = operator.merge(mp.connect, schema, key, segment, timeout)
    typer.echo(f"{key.processor}: merged into segment {merged}")


def balance(
    name: Name,
    version: Version = None,
    timeout: Timeout = operator.TIMEOUT_SECONDS,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Split the segment that is furthest behind."""
    mp = open_log(url, schema)
    with mp.connect() as conn:
        key = admin.find(conn, schema, name, version)
    halves = operator.balance(mp.connect, schema, key, timeout)
    if halves is None:
        typer.echo(f"{key.processor}: no segment is behind, nothing to split")
    else:
        _say_split(key, halves)


def as_document(status: SegmentStatus) -> dict[str, Any]:
    document = asdict(status)
    del document["transaction_id"]
    return document | {"position": str(status.checkpoint)}


def _say_split(key: CheckpointKey, halves: tuple[Segment, Segment]) -> None:
    first, second = halves
    typer.echo(f"{key.processor}: split segment {first.id} into {first.id} and {second.id}")


def _print_table(name: str, found: list[SegmentStatus]) -> None:
    from rich.table import Table

    if not found:
        typer.echo(f"{name} has no segments")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("segment", "mask", "position", "lag", "behind", "epoch", "owner"):
        right = column in ("segment", "lag", "epoch")
        table.add_column(column, justify="right" if right else "left", no_wrap=column != "owner")
    for status in found:
        table.add_row(*_cells(status))
    out = console()
    out.print(table)
    for status in found:
        if status.last_error is not None:
            text = f"segment {status.id}: {status.last_error}"
            out.print(fitted(text, out.width), style="red")


def _cells(status: SegmentStatus) -> list[str]:
    checkpoint = str(status.checkpoint).replace(":9223372036854775807", ":*")
    owner = status.owner or (f"wanted by {status.wanted_by}" if status.wanted_by else "-")
    behind = duration(status.lag_seconds) if status.lag_messages else "-"
    return [
        str(status.id), f"{status.mask:b}", checkpoint, f"{status.lag_messages:,}", behind,
        str(status.epoch), fitted(owner, 24),
    ]  # fmt: skip
