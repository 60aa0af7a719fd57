"""Claims in the database: the statements of one instance, on whatever connection it has."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost import db
from milepost.checkpoints import columns
from milepost.handlers import storable
from milepost.processors.segments.fair_share import Tended
from milepost.processors.segments.split_merge import Floor
from milepost.records import Position, Segment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection

log = logging.getLogger("milepost.processors")


@dataclass(frozen=True, slots=True)
class Claim:
    """A segment, as it was when this instance claimed it."""

    segment: Segment
    epoch: int
    position: Position
    floors: tuple[Floor, ...]


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of one owner. Times are the server's; only durations are passed."""

    key: CheckpointKey
    owner: str
    claim_seconds: float
    schema: str

    def create(self, conn: Connection, number: int, start: Position) -> bool:
        """Make the processor's segments; False if it has some already."""
        return bool(self._one(conn, "segments_create", number=number, **columns(start))[0])

    def tend(self, conn: Connection, rate: float = 0.0) -> Tended:
        row = self._one(conn, "segments_tend", claim_seconds=self.claim_seconds, rate=rate)
        ids, epochs, wanted, share, next_expiry = row
        return Tended(
            dict(zip(ids, epochs, strict=True)),
            frozenset(i for i, is_wanted in zip(ids, wanted, strict=True) if is_wanted),
            share,
            next_expiry,
        )

    def limit(self, conn: Connection, at_most: int | None) -> None:
        """Say how many segments this instance takes; None: its fair share. The others share what
        it leaves."""
        db.run(conn, self.schema, "segments_limit", **self._of(), at_most=at_most)

    def claim(
        self, conn: Connection, max_count: int, left_to_others: Sequence[int] = ()
    ) -> list[Claim]:
        """What is free, up to so many. If it is less, a frozen process may have the rest."""
        rows = db.fetch_all(
            conn,
            self.schema,
            "segments_claim",
            **self._of(),
            max_count=max_count,
            claim_seconds=self.claim_seconds,
            left_to_others=list(left_to_others),
        )
        if len(rows) < max_count:
            end_silent(conn, self.schema, self.key, self.claim_seconds)
        # Read after claiming: only the owner of a segment changes its floors.
        ids = [row[0] for row in rows]
        floors = load_floors(conn, self.schema, self.key, ids) if rows else {}
        return [_claim(row, floors) for row in rows]

    def note_handled(self, conn: Connection, handled: Mapping[tuple[int, int], Position]) -> None:
        """For operators: by segment and epoch, what handlers were given and is not stored yet."""
        db.run(
            conn,
            self.schema,
            "segments_handled",
            **self._of(),
            ids=[id_ for id_, _ in handled],
            epochs=[epoch for _, epoch in handled],
            transaction_ids=[position.transaction_id for position in handled.values()],
            positions=[position.position for position in handled.values()],
        )

    def release(self, conn: Connection, segment: int, epoch: int) -> bool:
        """False if it was somebody else's by then."""
        return bool(self._one(conn, "segments_release", segment=segment, epoch=epoch)[0])

    def leave(self, conn: Connection) -> None:
        """Give back whatever is held, and be no instance any more."""
        self._one(conn, "segments_leave")

    def note_error(self, conn: Connection, segment: int, error: str) -> None:
        of, text = self._of(), storable(error)
        db.run(conn, self.schema, "segments_error", **of, segment=segment, error=text)

    def _one(self, conn: Connection, query: str, **parameters: object) -> Any:
        return db.fetch_one(conn, self.schema, query, **self._of(), **parameters)

    def _of(self) -> dict[str, Any]:
        return self.key.parameters() | {"owner": self.owner}


def end_silent(conn: Connection, schema: str, key: CheckpointKey, claim_seconds: float) -> None:
    """End the sessions with which a frozen process keeps what is to be claimed: its kernel answers
    for it, so the server keeps its transaction open."""
    of, seconds = key.parameters(), claim_seconds
    for row in db.fetch_all(conn, schema, "processor_end_silent", **of, claim_seconds=seconds):
        segment, owner, silent_seconds, pid = row
        log.warning(
            "processor=%s segment=%s ended session %s of %s, which has been silent for %.0f s",
            key.processor, segment, pid, owner, silent_seconds,
        )  # fmt: skip


def unclaimed(conn: Connection, schema: str, key: CheckpointKey, segment: Segment) -> Claim | None:
    """A segment as it is now, for an instance that is fenced by its checkpoint alone; None if it
    was split or merged."""
    of, id_ = key.parameters(), segment.id
    rows = db.fetch_all(conn, schema, "segments_at", **of, segment=id_, mask=segment.mask)
    return _claim(rows[0], load_floors(conn, schema, key, [id_])) if rows else None


def load_floors(
    conn: Connection, schema: str, key: CheckpointKey, ids: list[int]
) -> dict[int, list[Floor]]:
    """The floors of these segments, by segment."""
    rows = db.fetch_all(conn, schema, "segments_floors", **key.parameters(), ids=ids)
    found: dict[int, list[Floor]] = {}
    for segment, id_, mask, transaction_id, position in rows:
        floor = Floor(Segment(id_, mask), Position(transaction_id, position))
        found.setdefault(segment, []).append(floor)
    return found


def _claim(row: Any, floors: dict[int, list[Floor]]) -> Claim:
    id_, mask, epoch, transaction_id, position = row
    at = Position(transaction_id, position)
    kept = tuple(floor for floor in floors.get(id_, []) if floor.position > at)
    return Claim(Segment(id_, mask), epoch, at, kept)
