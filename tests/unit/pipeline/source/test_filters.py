from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
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
    StringStartsWith,
)

from milepost.pipeline.source.filters import EVERYTHING, Conditions, push

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (EqualTo(("topic",), "a"), {"topics": frozenset({"a"})}),
        (EqualNullSafe(("type",), "a"), {"types": frozenset({"a"})}),
        (In(("key",), ("a", "b")), {"keys": frozenset({"a", "b"})}),
        (Not(EqualTo(("key",), "a")), {"not_keys": frozenset({"a"})}),
        (Not(In(("id",), ("a", "b"))), {"not_ids": frozenset({"a", "b"})}),
        (IsNull(("key",)), {"is_keyed": False}),
        (IsNotNull(("key",)), {"is_keyed": True}),
        (Not(IsNull(("key",))), {"is_keyed": True}),
        (IsNotNull(("topic",)), {}),
        (EqualTo(("position",), 7), {"min_position": 7, "max_position": 7}),
        (GreaterThan(("position",), 7), {"min_position": 8}),
        (GreaterThanOrEqual(("transaction_id",), 7), {"min_transaction_id": 7}),
        (LessThan(("position",), 7), {"max_position": 6}),
        (LessThanOrEqual(("position",), 7), {"max_position": 7}),
        (GreaterThan(("recorded_at",), NOON), {"recorded_from": NOON + TICK}),
        (LessThan(("recorded_at",), NOON), {"recorded_to": NOON - TICK}),
    ],
)
def test_what_the_server_can_answer_is_taken_from_spark(
    given: Filter, expected: dict[str, Any]
) -> None:
    assert push([given], EVERYTHING) == (Conditions(**expected), [])


@pytest.mark.parametrize(
    "given",
    [
        EqualTo(("data",), "a"),
        EqualTo(("topic",), None),
        EqualTo(("key",), "a\0b"),
        In(("key",), ("a", None)),
        Not(EqualNullSafe(("key",), "a")),
        Not(EqualTo(("position",), 7)),
        Not(GreaterThan(("position",), 7)),
        GreaterThan(("topic",), "a"),
        StringStartsWith(("topic",), "a"),
        IsNull(("topic",)),
        EqualTo(("topic", "inner"), "a"),
        EqualTo(("position",), 2**63 - 1),
        EqualTo(("recorded_at",), datetime(2026, 1, 1)),
    ],
)
def test_the_rest_is_left_to_spark(given: Filter) -> None:
    assert push([given], EVERYTHING) == (EVERYTHING, [given])


def test_filters_add_up() -> None:
    filters = [
        In(("topic",), ("a", "b")),
        EqualTo(("topic",), "b"),
        GreaterThan(("position",), 3),
        GreaterThan(("position",), 9),
        Not(EqualTo(("type",), "x")),
        Not(EqualTo(("type",), "y")),
    ]
    pushed, left = push(filters, Conditions(topics=frozenset({"b", "c"})))
    assert left == []
    assert pushed == Conditions(
        topics=frozenset({"b"}), min_position=10, not_types=frozenset({"x", "y"})
    )


def test_a_key_that_is_both_there_and_missing_is_left_to_spark() -> None:
    filters = [IsNull(("key",)), IsNotNull(("key",))]
    assert push(filters, EVERYTHING) == (Conditions(is_keyed=False), filters[1:])
