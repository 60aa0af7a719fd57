"""Messages and jobs are encoded by the same rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import inf, nan
from typing import Any

import pytest

from milepost import Job, Message
from milepost.errors import InvalidJob, InvalidMessage
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES
from milepost.log.encode import encode as encode_message
from milepost.queue.encode import encode as encode_job


class Rate(Enum):
    UNKNOWN = nan
    NONE = None
    FULL = 1.5


@dataclass
class Order:
    total: Any


def enum_of(value: Any) -> Enum:
    class Kind(Enum):
        ONLY = value

    return Kind.ONLY


def data_of(value: Any) -> str:
    return encode_message(Message("T", value), DEFAULT_MAX_PAYLOAD_BYTES).data


def content_of(value: Any) -> str:
    return encode_job(Job("c", value)).content.decode()


both = pytest.mark.parametrize(
    ("encoded", "error"), [(data_of, InvalidMessage), (content_of, InvalidJob)]
)
Encoded = Callable[[Any], str]


@both
@pytest.mark.parametrize("number", [nan, inf, -inf])
@pytest.mark.parametrize(
    "within",
    [
        lambda number: number,
        lambda number: {"a": [1, number]},
        lambda number: (None, Order(number)),
        lambda number: enum_of(number),
        lambda number: [enum_of([number])],
    ],
    ids=["bare", "dict", "dataclass", "enum", "enum of a list"],
)
def test_a_number_that_json_cannot_express_is_refused_wherever_it_is(
    encoded: Encoded, error: type[Exception], number: float, within: Callable[[float], Any]
) -> None:
    with pytest.raises(error, match=r"-?(nan|inf), which JSON cannot express"):
        encoded(within(number))


@both
def test_null_and_numbers_of_enums_and_dataclasses_are_kept(
    encoded: Encoded, error: type[Exception]
) -> None:
    assert encoded([None, Rate.NONE, Rate.FULL, Order(None)]) == '[null,null,1.5,{"total":null}]'
    with pytest.raises(error, match="nan, which JSON"):
        encoded(Rate.UNKNOWN)


@both
def test_what_is_not_json_is_refused_with_the_reason(
    encoded: Encoded, error: type[Exception]
) -> None:
    with pytest.raises(error, match="is not JSON: Type is not JSON serializable: object"):
        encoded(object())
    with pytest.raises(error, match="is not JSON"):
        encoded("\ud800")


def test_only_a_message_refuses_nul_which_the_bytes_of_a_job_can_store() -> None:
    with pytest.raises(InvalidMessage, match="NUL character"):
        data_of({"a\0b": 1})
    assert content_of("a\0b") == '"a\\u0000b"'
    assert content_of(b"a\0b") == "a\0b"
