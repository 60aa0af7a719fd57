"""The values that cross rooms: frozen, comparable, without any database or clock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from uuid_utils.compat import uuid7

from milepost.errors import InvalidPosition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a message stands in the total order. Always compared as the whole pair."""

    transaction_id: int
    position: int

    BEGINNING: ClassVar[Position]

    @classmethod
    def parse(cls, text: str) -> Position:
        """From `17:42`, or from `42`, the short form in a log in append order."""
        first, colon, second = text.partition(":")
        parts = (first, second) if colon else ("0", first)
        if not all(part.isascii() and part.isdigit() for part in parts):
            raise InvalidPosition(text)
        return cls(int(parts[0]), int(parts[1]))

    def __str__(self) -> str:
        return f"{self.transaction_id}:{self.position}"


Position.BEGINNING = Position(0, 0)


@dataclass(frozen=True, slots=True)
class Message:
    """What is appended. The id is known before anything is written."""

    type: str
    data: Any
    key: str | None = field(default=None, kw_only=True)
    topic: str = field(default="default", kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    id: UUID = field(default_factory=uuid7, kw_only=True)


@dataclass(frozen=True, slots=True)
class RecordedMessage(Message):
    """A message as it is read from the log."""

    position: Position
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Segment:
    """A slice of the hash space of keys: those whose `hash & mask == id`."""

    id: int
    mask: int

    WHOLE: ClassVar[Segment]

    def holds(self, key: str | None) -> bool:
        return key_hash(key) & self.mask == self.id


Segment.WHOLE = Segment(0, 0)


def key_hash(key: str | None) -> int:
    """The stable 32-bit hash of a key, as the SQL function key_hash() and Spark compute it."""
    if key is None:
        return 0
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
