"""Which message may start next, when several run at once. Pure.

Messages of one key run in order, one at a time; those without a key run freely. Of those that
may start, the oldest does: it is what the checkpoint waits for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from milepost.records import RecordedMessage


@dataclass(frozen=True, slots=True)
class Ticket:
    """A message and the sequence under which the committer knows it."""

    message: RecordedMessage
    sequence: int


@dataclass(slots=True)
class Lanes:
    _ready: list[tuple[int, Ticket]] = field(default_factory=list)  # a heap, by sequence
    _behind: dict[str, deque[Ticket]] = field(default_factory=dict)  # a key in hand -> its rest

    def add(self, ticket: Ticket) -> None:
        key = ticket.message.key
        if key is not None and key in self._behind:
            self._behind[key].append(ticket)
            return
        if key is not None:
            self._behind[key] = deque()
        self._make_ready(ticket)

    def take(self) -> Ticket | None:
        return heappop(self._ready)[1] if self._ready else None

    def done(self, ticket: Ticket) -> None:
        """The next message of the same key may start."""
        key = ticket.message.key
        if key is None:
            return
        rest = self._behind[key]
        if rest:
            self._make_ready(rest.popleft())
        else:
            del self._behind[key]

    def _make_ready(self, ticket: Ticket) -> None:
        heappush(self._ready, (ticket.sequence, ticket))
