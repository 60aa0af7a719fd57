from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict
from uuid import uuid4

import pytest

from milepost import SUPPLIED, TakenJob
from milepost.db import Connection
from milepost.errors import InvalidArguments
from milepost.queue.tasks.arguments import Arguments


@dataclass
class Order:
    id: int


def send(order: int, to: str = "all", weights: list[float] | None = None) -> None: ...
def supplied(order: int, client: Order = SUPPLIED, *, tx: Connection, job: TakenJob) -> None: ...
def hire(job: str) -> None: ...
def any_position(*orders: int) -> None: ...
def any_name(**orders: int) -> None: ...
def no_name(order: int, /) -> None: ...


SEND = Arguments.of("send", send)


def test_arguments_are_stored_by_name_and_without_defaults() -> None:
    assert SEND.encoded((1,), {"to": "me"}) == {"order": 1, "to": "me"}
    assert SEND.encoded((), {"order": 1}) == {"order": 1}


@pytest.mark.parametrize(
    ("given", "named", "reason"),
    [
        ((), {}, "missing a required argument: 'order'"),
        ((1, "a", None, 4), {}, "too many positional arguments"),
        ((1,), {"size": 2}, "unexpected keyword argument 'size'"),
        (("1",), {}, "order must be int, not str"),
        ((True,), {}, "order must be int, not bool"),
        ((1, 2), {}, "to must be str, not int"),
        ((1,), {"weights": (1, 2)}, r"weights is \(1, 2\), which JSON does not give back"),
        ((1,), {"weights": datetime(2030, 1, 1, tzinfo=UTC)}, "weights is datetime"),
        ((1,), {"weights": uuid4()}, "weights is UUID"),
        ((1,), {"weights": Order(1)}, "weights is Order"),
        ((1,), {"weights": {1: 2}}, "weights is"),
        ((1,), {"weights": [float("nan")]}, "weights is"),
        ((1,), {"weights": object()}, "weights is"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_signature(
    given: Any, named: Any, reason: str
) -> None:
    with pytest.raises(InvalidArguments, match=rf"send\(order: 'int', to.*{reason}"):
        SEND.encoded(given, named)


class Line(TypedDict):
    article: int
    note: NotRequired[str]


Number = NewType("Number", int)


def typed(
    numbers: list[int],
    by_name: dict[str, list[Number]] | None,
    lines: Sequence[Line],
    kind: Literal["a", "b"] = "a",
    share: Annotated[float, "of one"] = 1,
    price: int = None,  # type: ignore[assignment] # noqa: RUF013
    when: datetime | str = "",
    anything: Any = None,
) -> None: ...


FITTING = {
    "numbers": [1],
    "by_name": {"a": [1, 2]},
    "lines": [{"article": 1, "note": "n"}, {"article": 2}],
    "kind": "b",
    "share": 1,
    "price": None,
    "when": "2030-01-01",
    "anything": [{}],
}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"numbers": [1, "2"]}, "numbers[1] must be int, not str"),
        ({"numbers": [True]}, "numbers[0] must be int, not bool"),
        ({"numbers": {}}, "numbers must be list, not dict"),
        ({"by_name": {"a": [1, None]}}, "by_name['a'][1] must be int, not NoneType"),
        ({"by_name": 1}, f"by_name must be {dict[str, list[Number]] | None}, not int"),
        ({"lines": [{"article": 1}, {"article": "2"}]}, "lines[1]['article'] must be int, not str"),
        ({"lines": "text"}, None),
        ({"kind": "c"}, "kind must be one of 'a', 'b'"),
        ({"share": "1"}, "share must be float, not str"),
        ({"price": "1"}, "price must be int | None, not str"),
        ({}, None),
    ],
)  # fmt: skip
def test_types_are_checked_inside_of_lists_and_dicts_where_a_task_is_put_and_called(
    wrong: dict[str, Any], reason: str | None
) -> None:
    arguments, given = Arguments.of("typed", typed), FITTING | wrong
    assert arguments.misfit(given) == reason
    if reason is None:
        assert arguments.encoded((), given) == given
    else:
        with pytest.raises(InvalidArguments, match=re.escape(reason)):
            arguments.encoded((), given)


def test_what_the_worker_supplies_is_no_argument() -> None:
    arguments = Arguments.of("supplied", supplied)
    assert list(arguments.signature.parameters) == ["order"]
    assert (arguments.tx, arguments.job, set(arguments.resources)) == ("tx", "job", {"client"})
    with pytest.raises(InvalidArguments, match="tx"):
        arguments.encoded((1,), {"tx": 2})


def test_an_argument_may_be_called_job() -> None:
    assert Arguments.of("hire", hire).encoded(("cook",), {}) == {"job": "cook"}


def test_stored_arguments_that_do_not_fit_any_more_are_found() -> None:
    assert SEND.misfit({"order": 1}) is None
    assert SEND.misfit({"order": 1, "cc": 2}) == "got an unexpected keyword argument 'cc'"
    assert SEND.misfit([1]) == "list is not a JSON object"


@pytest.mark.parametrize("function", [any_position, any_name, no_name])
def test_parameters_without_a_name_are_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="stored by name"):
        Arguments.of("send", function)


def test_two_transactions_are_refused() -> None:
    def send(tx: Any, conn: Connection) -> None: ...

    with pytest.raises(TypeError, match="twice: tx, conn"):
        Arguments.of("send", send)
