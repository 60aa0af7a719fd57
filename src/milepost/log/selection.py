"""Which messages a reader selects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.records import Message, Segment


@dataclass(frozen=True, slots=True)
class Selection:
    """Filtering never changes the order of messages."""

    topics: Sequence[str] | None = None
    types: Sequence[str] | None = None
    segment: Segment | None = None
    key: str | None = None  # read by an index that a log has only on request

    def __post_init__(self) -> None:
        """A str is a sequence of str too: its characters would silently match nothing."""
        if self.key is not None and self.segment is not None:
            raise ValueError(
                f"key is {self.key!r} and segment is {self.segment}: expected one of them, because "
                "all messages of a key are in the same segment."
            )
        for option, value in (("topics", self.topics), ("types", self.types)):
            if isinstance(value, str):
                raise ValueError(f"{option} is {value!r}: expected a list, [{value!r}].")  # noqa: TRY004

    def selects(self, message: Message) -> bool:
        """Whether it is among them, for messages that are not read from the log."""
        return (
            (self.topics is None or message.topic in self.topics)
            and (self.types is None or message.type in self.types)
            and (self.segment is None or self.segment.holds(message.key))
        )

    def parameters(self) -> dict[str, Any]:
        return {
            "topics": None if self.topics is None else list(self.topics),
            "types": None if self.types is None else list(self.types),
            "segment_id": self.segment.id if self.segment else None,
            "segment_mask": self.segment.mask if self.segment else None,
            "key": self.key,
        }


EVERYTHING = Selection()
