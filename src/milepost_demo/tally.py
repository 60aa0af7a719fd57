"""Counts of what a reader read. Pure: no log, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from milepost.records import Position


@dataclass(slots=True)
class Tally:
    """Counts messages as they are read."""

    read: int = 0
    out_of_order: int = 0
    rolled_back: int = 0
    last: Position = Position.BEGINNING
    _ids: set[UUID] = field(default_factory=set)
    _last_of_writer: dict[int, int] = field(default_factory=dict)

    def see(self, id_: UUID, position: Position, data: Mapping[str, Any]) -> None:
        """In order means: after the previous message, and after the previous one of its writer.
        A writer numbers its messages, and stores in each one whether it will be committed."""
        writer, number = data["writer"], data["number"]
        self.read += 1
        self.out_of_order += position <= self.last or number <= self._last_of_writer.get(writer, -1)
        self.rolled_back += not data["is_kept"]
        self._ids.add(id_)
        self.last = position
        self._last_of_writer[writer] = number

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
    """What a reader read compared with what was committed."""

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
