"""How far a processor has come, segmented or not: as far as the segment that is furthest behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import sql
from milepost.db import translated
from milepost.errors import HasSegments
from milepost.log import Horizon, Selection, read_batch
from milepost.records import Position, Segment

if TYPE_CHECKING:
    from collections.abc import Collection

    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.processors.definition import ProcessorOptions


@dataclass(frozen=True, slots=True)
class Standing:
    """A checkpoint and what it speaks for; the segment is None for an unsegmented processor."""

    segment: Segment | None
    position: Position


def standings(conn: Connection, schema: str, key: CheckpointKey) -> list[Standing]:
    """The lowest first; none if it has never run."""
    parameters = {"processor": key.processor, "version": key.version}
    with translated(schema):
        rows = conn.execute(sql.query("segments_of", schema), parameters).fetchall()
    return [
        Standing(None if mask is None else Segment(id_, mask), Position(transaction_id, position))
        for id_, mask, transaction_id, position in rows
    ]


def lowest(conn: Connection, schema: str, key: CheckpointKey) -> Position | None:
    found = standings(conn, schema, key)
    return found[0].position if found else None


def refuse_segmented(conn: Connection, schema: str, key: CheckpointKey) -> None:
    """Without segments there is one checkpoint; what of many it should be, nobody can say."""
    found = sum(each.segment is not None for each in standings(conn, schema, key))
    if found:
        raise HasSegments(key.processor, found)


def has_seen(
    conn: Connection,
    schema: str,
    options: ProcessorOptions,
    position: Position,
    besides: Collection[int] = (),
) -> bool:
    """Whether nothing that it reads lies between any of its checkpoints and a position; `besides`
    segments that the caller knows of."""
    found = standings(conn, schema, options.key)
    return bool(found) and all(
        _is_past(conn, schema, options, standing, position)
        for standing in found
        if standing.segment is None or standing.segment.id not in besides
    )


def _is_past(
    conn: Connection, schema: str, options: ProcessorOptions, standing: Standing, position: Position
) -> bool:
    selection = Selection(options.topics, options.types, standing.segment)
    return is_past(conn, schema, selection, standing.position, position)


def is_past(
    conn: Connection, schema: str, selection: Selection, checkpoint: Position, position: Position
) -> bool:
    """Whether nothing of the selection lies between a checkpoint and a position."""
    if checkpoint >= position:
        return True
    horizon = Horizon(position, is_held=False)
    batch = read_batch(conn, checkpoint, horizon, selection, batch_size=1, schema=schema)
    return not batch.messages
