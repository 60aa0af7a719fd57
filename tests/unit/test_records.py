from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import Message, Position, Segment, key_hash
from milepost.errors import InvalidPosition

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "key_hash.json").read_text("utf-8")
)
numbers = st.integers(min_value=0, max_value=2**63 - 1)
positions = st.builds(Position, numbers, numbers)
keys = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(positions, positions)
def test_positions_compare_as_pairs(one: Position, other: Position) -> None:
    pairs = [(p.transaction_id, p.position) for p in (one, other)]
    assert (one < other) == (pairs[0] < pairs[1])
    assert (one == other) == (pairs[0] == pairs[1])


def test_a_higher_transaction_outweighs_a_lower_position() -> None:
    assert Position(10, 1) > Position(9, 100)
    assert sorted([Position(0, 10), Position(0, 9)]) == [Position(0, 9), Position(0, 10)]


def test_the_beginning_is_before_every_message() -> None:
    assert Position(0, 1) > Position.BEGINNING
    assert Position(1, 0) > Position.BEGINNING


@given(positions)
def test_a_position_survives_its_text(position: Position) -> None:
    assert Position.parse(str(position)) == position


def test_the_short_form_is_a_position_in_append_order() -> None:
    assert Position.parse("42") == Position(0, 42)
    assert str(Position(17, 42)) == "17:42"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "1:",
        ":1",
        "1:2:3",
        "-1",
        "1:-2",
        " 1",
        "1 ",
        "1.5",
        "x",
        "٣",
        "²",
        "1_0",
        "+1",
        str(2**63),
        f"{2**63}:1",
        "1" * 5000,
    ],
)
def test_a_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidPosition, match="expected '42' or '17:42'") as caught:
        Position.parse(text)
    assert caught.value.text == text


def test_every_message_has_an_id_of_its_own_in_the_order_of_time() -> None:
    ids = [Message("T", {}).id for _ in range(100)]
    assert len(set(ids)) == 100
    assert {made.version for made in ids} == {7}
    assert ids == sorted(ids)


def test_messages_cannot_be_changed() -> None:
    message = Message("T", {})
    with pytest.raises(FrozenInstanceError):
        message.type = "U"  # type: ignore[misc]  # that it is refused is the point


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["key"])[:20])
def test_keys_hash_as_the_shared_vectors_say(vector: dict[str, Any]) -> None:
    assert key_hash(vector["key"]) == vector["hash"]


@given(keys)
def test_a_hash_has_32_bits(key: str | None) -> None:
    assert 0 <= key_hash(key) < 2**32


@given(keys, st.integers(min_value=0, max_value=10))
def test_of_the_segments_of_a_mask_exactly_one_holds_a_key(key: str | None, bits: int) -> None:
    mask = 2**bits - 1
    assert sum(Segment(n, mask).holds(key) for n in range(mask + 1)) == 1


@given(keys, st.integers(min_value=0, max_value=20))
def test_a_key_of_a_segment_is_in_one_of_its_halves(key: str | None, bits: int) -> None:
    mask = 2**bits - 1
    segment = Segment(key_hash(key) & mask, mask)
    longer = 2 * mask + 1
    halves = [Segment(segment.id, longer), Segment(segment.id + (longer ^ mask), longer)]
    assert segment.holds(key)
    assert sum(half.holds(key) for half in halves) == 1


@given(keys)
def test_the_whole_segment_holds_every_key(key: str | None) -> None:
    assert Segment.WHOLE.holds(key)
