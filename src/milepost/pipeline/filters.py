"""What the source fetches at all: the topics and types asked for, and the filters of a query as
far as the server answers them exactly as Spark does. Pure.

Text is compared for equality only: for less and more, Spark goes by bytes and the server by its
collation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Texts: TypeAlias = "frozenset[str] | None"
Bound: TypeAlias = "int | datetime"

_TEXTS = {"topic": "topics", "type": "types", "key": "keys", "id": "ids"}
_BOUNDS = {
    "transaction_id": ("min_transaction_id", "max_transaction_id"),
    "position": ("min_position", "max_position"),
    "recorded_at": ("recorded_from", "recorded_to"),
}
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Conditions:
    """All of these hold for a message that is fetched; None asks for nothing."""

    topics: Texts = None
    types: Texts = None
    keys: Texts = None
    ids: Texts = None
    not_topics: Texts = None
    not_types: Texts = None
    not_keys: Texts = None
    not_ids: Texts = None
    is_keyed: bool | None = None
    min_transaction_id: int | None = None
    max_transaction_id: int | None = None
    min_position: int | None = None
    max_position: int | None = None
    recorded_from: datetime | None = None
    recorded_to: datetime | None = None

    def parameters(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, value in values.items()
        }

    def one_of(self, field: str, texts: Iterable[str]) -> Conditions:
        known: Texts = getattr(self, field)
        both = frozenset(texts) if known is None else known & frozenset(texts)
        return self._with(field, both)

    def none_of(self, field: str, texts: Iterable[str]) -> Conditions:
        known: Texts = getattr(self, f"not_{field}")
        return self._with(f"not_{field}", (known or frozenset()) | frozenset(texts))

    def at_least(self, field: str, bound: Any) -> Conditions:
        known = getattr(self, field)
        return self._with(field, bound if known is None else max(known, bound))

    def at_most(self, field: str, bound: Any) -> Conditions:
        known = getattr(self, field)
        return self._with(field, bound if known is None else min(known, bound))

    def _with(self, field: str, value: Any) -> Conditions:
        return replace(self, **{field: value})


EVERYTHING = Conditions()


def push(filters: Iterable[Filter], conditions: Conditions) -> tuple[Conditions, list[Filter]]:
    """The conditions with the filters in them, and the filters that are left to Spark."""
    left: list[Filter] = []
    for each in filters:
        pushed = _pushed(each, conditions)
        if pushed is None:
            left.append(each)
        else:
            conditions = pushed
    return conditions, left


def _pushed(each: Filter, conditions: Conditions) -> Conditions | None:
    positive = each.child if isinstance(each, Not) else each
    column = _column(positive)
    if isinstance(positive, (IsNull, IsNotNull)):
        is_null = isinstance(positive, IsNull) != isinstance(each, Not)
        return _null(column, conditions, is_null=is_null)
    if column in _TEXTS:
        return _text(column, positive, conditions, is_negated=isinstance(each, Not))
    if column in _BOUNDS and not isinstance(each, Not):
        return _bound(column, positive, conditions)
    return None


def _column(each: Filter) -> str:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _null(column: str, conditions: Conditions, *, is_null: bool) -> Conditions | None:
    """Only a key may be missing. Two that contradict each other are left to Spark."""
    if column == "key" and conditions.is_keyed in (None, not is_null):
        return replace(conditions, is_keyed=not is_null)
    is_always_so = column in (_TEXTS.keys() | _BOUNDS.keys() | {"data", "metadata"}) - {"key"}
    return conditions if is_always_so and not is_null else None


def _text(
    column: str, each: Filter, conditions: Conditions, *, is_negated: bool
) -> Conditions | None:
    if isinstance(each, In):
        values = list(each.value)
    elif isinstance(each, EqualTo) or (isinstance(each, EqualNullSafe) and not is_negated):
        values = [each.value]  # null-safe inequality alone is true for a message without a key
    else:
        return None
    if not values or not all(isinstance(v, str) and "\0" not in v for v in values):
        return None
    field = _TEXTS[column]
    return conditions.none_of(field, values) if is_negated else conditions.one_of(field, values)


def _bound(column: str, each: Filter, conditions: Conditions) -> Conditions | None:
    value = getattr(each, "value", None)
    if not _is_comparable(column, value):
        return None
    lowest, highest = _BOUNDS[column]
    # Whole numbers and microseconds: what is more than a value is at least the next one.
    step: Any = timedelta(microseconds=1) if column == "recorded_at" else 1
    match each:
        case EqualTo() | EqualNullSafe():
            return conditions.at_least(lowest, value).at_most(highest, value)
        case GreaterThan():
            return conditions.at_least(lowest, value + step)
        case GreaterThanOrEqual():
            return conditions.at_least(lowest, value)
        case LessThan():
            return conditions.at_most(highest, value - step)
        case LessThanOrEqual():
            return conditions.at_most(highest, value)
    return None


def _is_comparable(column: str, value: object) -> bool:
    if column == "recorded_at":
        # At the ends of Python's calendar there is no next microsecond.
        return isinstance(value, datetime) and value.tzinfo is not None and 1 < value.year < 9999
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
