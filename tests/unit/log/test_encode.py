from __future__ import annotations

import json
import math
from collections import UserDict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import Message
from milepost.errors import InvalidMessage, PayloadTooLarge
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES, Row, encode

OWN_ID = UUID("00000000-0000-4000-8000-000000000001")
texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.floats()
    | texts
)
documents: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)


def encoded(message: Message, max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES) -> Row:
    return encode(message, max_payload_bytes)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.items() for part in item for leaf in leaves(part)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def is_representable(leaf: Any) -> bool:
    if isinstance(leaf, float):
        return math.isfinite(leaf)
    return not (isinstance(leaf, str) and "\0" in leaf)


@given(documents)
def test_data_is_refused_or_means_the_same_in_json(data: Any) -> None:
    if all(map(is_representable, leaves(data))):
        assert json.loads(encoded(Message("T", data)).data) == data
    else:
        with pytest.raises(InvalidMessage):
            encoded(Message("T", data))


def test_the_columns_are_in_the_order_of_every_append() -> None:
    message = Message(
        "Type", {"a": 1}, key="key", topic="topic", metadata={"trace": "x"}, id=OWN_ID
    )
    assert tuple(encoded(message)) == (OWN_ID, "topic", "key", "Type", '{"a":1}', '{"trace":"x"}')


def test_metadata_may_be_any_mapping() -> None:
    assert encoded(Message("T", {}, metadata=UserDict(a=1))).metadata == '{"a":1}'
    assert encoded(Message("T", {})).metadata == "{}"


@pytest.mark.parametrize("metadata", [[], "", 0, False, [1]])
def test_metadata_that_is_no_mapping_is_refused(metadata: Any) -> None:
    with pytest.raises(InvalidMessage, match="metadata must be a mapping"):
        encoded(Message("T", {}, metadata=metadata))


def test_times_and_ids_become_text() -> None:
    data = {"at": datetime(2024, 5, 1, tzinfo=UTC), "id": OWN_ID}
    assert json.loads(encoded(Message("T", data)).data) == {
        "at": "2024-05-01T00:00:00+00:00",
        "id": str(OWN_ID),
    }


@pytest.mark.parametrize("limit", [4, 100, 10_000])
@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_a_payload_may_take_the_limit_and_no_byte_more(limit: int, character: str) -> None:
    # Two quotes, and two bytes of empty metadata.
    room, width = limit - 4, len(character.encode())
    fitting = Message("T", character * (room // width) + "x" * (room % width))
    assert len(encoded(fitting, limit).data.encode()) == limit - 2
    with pytest.raises(PayloadTooLarge, match=f"take {limit + 1} bytes, the limit is {limit}"):
        encoded(Message("T", fitting.data + "x"), limit)


def test_a_refusal_names_the_message() -> None:
    with pytest.raises(PayloadTooLarge, match=f"{OWN_ID} .Big."):
        encoded(Message("Big", "x" * 100, id=OWN_ID), 10)
