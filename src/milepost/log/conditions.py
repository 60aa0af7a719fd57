"""Under which conditions messages are appended: `unless` and `once`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.encode import check_text
from milepost.errors import InvalidCondition
from milepost.log.encode import MAX_CHARACTERS
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """A condition of `append(..., unless=...)`: messages of a key that the caller has not read.

    `after` is the position of the last message of the key that the caller has read;
    `Position.BEGINNING` if there was none. `types`: only messages of these types count.
    """

    key: str
    after: Position
    types: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """A missing position must not become a condition that is always true."""
        check_text("key", self.key, MAX_CHARACTERS["key"], InvalidCondition)
        if not isinstance(self.after, Position):
            raise InvalidCondition(
                "after",
                f"must be a Position, not {type(self.after).__name__}. If nothing was read, it is "
                "Position.BEGINNING.",
            )
        if isinstance(self.types, str):
            raise InvalidCondition("types", f"is a str: expected a list, [{self.types!r}].")
        if self.types is not None and not self.types:
            raise InvalidCondition(
                "types", "is empty: no message would count. Name types, or leave it out."
            )

    def parameters(self) -> dict[str, Any]:
        """For the queries that check it."""
        return {
            "newer_key": self.key,
            "newer_transaction_id": self.after.transaction_id,
            "newer_position": self.after.position,
            "newer_types": None if self.types is None else list(self.types),
        }


NO_CONDITION: dict[str, Any] = {
    "newer_key": None, "newer_transaction_id": None, "newer_position": None, "newer_types": None
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an append was asked to respect. False if nothing: then it costs nothing."""

    unless: Newer | None = None
    once: bool = False

    def __post_init__(self) -> None:
        if self.unless is not None and not isinstance(self.unless, Newer):
            raise InvalidCondition(
                "unless",
                f"must be Newer(key=..., after=...), not {type(self.unless).__name__}.",
            )

    def __bool__(self) -> bool:
        return self.once or self.unless is not None

    def parameters(self) -> dict[str, Any]:
        newer = NO_CONDITION if self.unless is None else self.unless.parameters()
        return {"once": self.once, **newer}


UNCONDITIONAL = Conditions()
