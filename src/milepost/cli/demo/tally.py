"""What a reader saw, counted. Pure: it knows neither the log nor the clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Set
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Sighting:
    """One message as a reader saw it. Each writer numbers what it writes, and says of each
    message whether it is going to commit it."""

    id: UUID
    position: Position
    writer: int
    number: int
    is_kept: bool


@dataclass(slots=True)
class Tally:
    """Counts sightings as they come."""

    read: int = 0
    out_of_order: int = 0
    rolled_back: int = 0
    _ids: set[UUID] = field(default_factory=set)
    _last: Position = Position.BEGINNING
    _last_of_writer: dict[int, int] = field(default_factory=dict)

    def see(self, sighting: Sighting) -> None:
        """In order means: after the one before, and after what its writer wrote before."""
        own = self._last_of_writer.get(sighting.writer, -1)
        self.read += 1
        self.out_of_order += sighting.position <= self._last or sighting.number <= own
        self.rolled_back += not sighting.is_kept
        self._ids.add(sighting.id)
        self._last = sighting.position
        self._last_of_writer[sighting.writer] = sighting.number

    def counted(self, committed: Set[UUID]) -> Counts:
        return Counts(
            committed=len(committed),
            read=self.read,
            lost=len(committed - self._ids),
            doubled=self.read - len(self._ids),
            out_of_order=self.out_of_order,
            rolled_back=self.rolled_back,
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """A reader's sightings against what was committed."""

    committed: int
    read: int
    lost: int
    doubled: int
    out_of_order: int
    rolled_back: int

    @property
    def is_faultless(self) -> bool:
        faults = (self.lost, self.doubled, self.out_of_order, self.rolled_back)
        return self.read > 0 and not any(faults)
