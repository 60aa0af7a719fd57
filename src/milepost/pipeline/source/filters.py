"""What the source fetches: the requested topics and types, and the filters of a query as far as the
server applies them exactly as Spark does. Pure.

Strings are compared for equality only: Spark orders them by bytes, the server by its collation.
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

Strings: TypeAlias = "frozenset[str] | None"

_STRINGS = {"topic": "topics", "type": "types", "key": "keys", "id": "ids"}
_BOUNDS = {
    "transaction_id": ("min_transaction_id", "max_transaction_id"),
    "position": ("min_position", "max_position"),
    "recorded_at": ("recorded_from", "recorded_to"),
}
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Conditions:
    """All of these hold for a message that is fetched. None is no condition."""

    topics: Strings = None
    types: Strings = None
    keys: Strings = None
    ids: Strings = None
    not_topics: Strings = None
    not_types: Strings = None
    not_keys: Strings = None
    not_ids: Strings = None
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

    def one_of(self, field: str, strings: frozenset[str]) -> Conditions:
        known: Strings = getattr(self, field)
        return self._with(**{field: strings if known is None else known & strings})

    def none_of(self, field: str, strings: frozenset[str]) -> Conditions:
        known: Strings = getattr(self, f"not_{field}")
        return self._with(**{f"not_{field}": strings if known is None else known | strings})

    def between(self, column: str, low: Any, high: Any) -> Conditions:
        """None is no limit."""
        lowest, highest = _BOUNDS[column]
        lows = (bound for bound in (getattr(self, lowest), low) if bound is not None)
        highs = (bound for bound in (getattr(self, highest), high) if bound is not None)
        return self._with(**{lowest: max(lows, default=None), highest: min(highs, default=None)})

    def _with(self, **changed: Any) -> Conditions:
        return replace(self, **changed)


EVERYTHING = Conditions()


def push(filters: Iterable[Filter], conditions: Conditions) -> tuple[Conditions, list[Filter]]:
    """The conditions with the filters added, and the filters that Spark must apply."""
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
    if column in _STRINGS:
        return _string(column, positive, conditions, is_negated=isinstance(each, Not))
    if column in _BOUNDS and not isinstance(each, Not):
        return _bound(column, positive, conditions)
    return None


def _column(each: Filter) -> str:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _null(column: str, conditions: Conditions, *, is_null: bool) -> Conditions | None:
    """Only a key may be null. Spark handles two filters that contradict each other."""
    if column == "key" and conditions.is_keyed in (None, not is_null):
        return replace(conditions, is_keyed=not is_null)
    is_always_so = column in (_STRINGS.keys() | _BOUNDS.keys() | {"data", "metadata"}) - {"key"}
    return conditions if is_always_so and not is_null else None


def _string(
    column: str, each: Filter, conditions: Conditions, *, is_negated: bool
) -> Conditions | None:
    if isinstance(each, In):
        values = list(each.value)
    elif isinstance(each, EqualTo) or (isinstance(each, EqualNullSafe) and not is_negated):
        values = [each.value]  # null-safe inequality is also true for a message without a key
    else:
        return None
    if not values or not all(isinstance(v, str) and "\0" not in v for v in values):
        return None
    field, strings = _STRINGS[column], frozenset(values)
    return conditions.none_of(field, strings) if is_negated else conditions.one_of(field, strings)


def _bound(column: str, each: Filter, conditions: Conditions) -> Conditions | None:
    value: Any = getattr(each, "value", None)
    if not _is_comparable(column, value):
        return None
    # Integers and microseconds: more than a value means at least the next one.
    step: Any = timedelta(microseconds=1) if column == "recorded_at" else 1
    match each:
        case EqualTo() | EqualNullSafe():
            return conditions.between(column, value, value)
        case GreaterThan():
            return conditions.between(column, value + step, None)
        case GreaterThanOrEqual():
            return conditions.between(column, value, None)
        case LessThan():
            return conditions.between(column, None, value - step)
        case LessThanOrEqual():
            return conditions.between(column, None, value)
    return None


def _is_comparable(column: str, value: object) -> bool:
    if column == "recorded_at":
        # At the ends of Python's calendar there is no next microsecond.
        return isinstance(value, datetime) and value.tzinfo is not None and 1 < value.year < 9999
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
