"""How far a processor has come, segmented or not: as far as the segment that is furthest behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from milepost import db
from milepost.errors import HasSegments, WaitTimedOut
from milepost.log import History, Horizon, Selection, horizon, read_batch
from milepost.records import Position, Segment
from milepost.runtime import holds_within

if TYPE_CHECKING:
    from collections.abc import Collection

    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.processors.definition import ProcessorOptions
    from milepost.runtime import Runtime


class Follower(ABC):
    """A processor or a pipeline: it follows the log, and others can wait for it."""

    __slots__ = ()
    kind: ClassVar[str]
    runtime: Runtime

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def _checkpoint(self, conn: Connection) -> Position | None: ...

    @abstractmethod
    def _has_seen(self, conn: Connection, position: Position) -> bool:
        """Whether nothing that it reads is between its checkpoint and a position."""

    def position(self) -> Position | None:
        """Its checkpoint: of the segment that is furthest behind, or of the active version. None
        before its first run."""
        with db.connect(self.runtime.url) as conn, db.acting(conn, "read"):
            return self._checkpoint(conn)

    def caught_up(self) -> bool:
        """Whether nothing that it reads is between its checkpoint and the horizon."""
        with db.connect(self.runtime.url) as conn, db.acting(conn, "read"):
            return self._has_seen(conn, horizon(conn, self.runtime.schema).position)

    def wait_for(self, position: Position, timeout: float = 10.0) -> None:
        """Returns when everything up to `position` has taken effect: read your own writes. Raises
        WaitTimedOut after `timeout` seconds."""
        with db.connect(self.runtime.url) as conn, db.acting(conn, "read"):
            if not holds_within(lambda: self._has_passed(conn, position), timeout):
                checkpoint = self._checkpoint(conn)
                raise WaitTimedOut(self.kind, self.name, position, checkpoint, timeout)

    def _has_passed(self, conn: Connection, position: Position) -> bool:
        """Also if the checkpoint is lower and everything in between was filtered out. Above the
        horizon, messages may still appear that are not filtered out."""
        checkpoint = self._checkpoint(conn)
        if checkpoint is not None and checkpoint >= position:
            return True
        is_complete = horizon(conn, self.runtime.schema).position >= position
        return is_complete and self._has_seen(conn, position)


@dataclass(frozen=True, slots=True)
class Standing:
    """A checkpoint and what it speaks for; the segment is None for an unsegmented processor."""

    segment: Segment | None
    position: Position


def standings(conn: Connection, schema: str, key: CheckpointKey) -> list[Standing]:
    """The lowest first; none if it has never run."""
    rows = db.fetch_all(conn, schema, "segments_of", **key.parameters())
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
    for standing in found:
        if standing.segment is None or standing.segment.id not in besides:
            selection = Selection(options.topics, options.types, standing.segment)
            if not is_past(conn, schema, selection, standing.position, position):
                return False
    return bool(found)


def is_past(
    conn: Connection, schema: str, selection: Selection, checkpoint: Position, position: Position
) -> bool:
    """Whether nothing of the selection lies between a checkpoint and a position."""
    if checkpoint >= position:
        return True
    up_to, history = Horizon(position, is_held=False), History(schema)
    while True:
        batch = read_batch(
            conn, checkpoint, up_to, selection, batch_size=1, schema=schema, history=history
        )
        # In the archive, a batch without messages may end before the position.
        if batch.messages or not batch.is_full:
            return not batch.messages
        checkpoint = batch.reached
