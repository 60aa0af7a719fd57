from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from milepost.checkpoints import CheckpointKey
from milepost.processors import Definition, ProcessorOptions
from milepost.processors.definition import Options
from milepost.retry import Retry


def plain(*_: Any) -> None: ...
async def coloured(*_: Any) -> None: ...


class Handlers:
    def method(self, *_: Any) -> None: ...
    async def async_method(self, *_: Any) -> None: ...

    @staticmethod
    async def async_static(*_: Any) -> None: ...

    @classmethod
    async def async_class(cls, *_: Any) -> None: ...


class Callable_:  # noqa: N801 - not typing's
    def __call__(self, *_: Any) -> None: ...


class AsyncCallable:
    async def __call__(self, *_: Any) -> None: ...


@pytest.mark.parametrize(
    "handler",
    [
        coloured,
        Handlers().async_method,
        Handlers.async_static,
        Handlers.async_class,
        AsyncCallable(),
        partial(coloured, 1),
        partial(partial(coloured, 1), 2),
        partial(Handlers().async_method, 1),
        partial(AsyncCallable(), 1),
    ],
)
def test_an_async_handler_is_recognised_in_every_shape(handler: Callable[..., Any]) -> None:
    assert Definition.of(ProcessorOptions("p"), handler).is_async


@pytest.mark.parametrize(
    "handler",
    [plain, Handlers().method, Callable_(), partial(plain, 1), partial(Callable_(), 1), print],
)
def test_a_plain_handler_is_recognised_in_every_shape(handler: Callable[..., Any]) -> None:
    assert not Definition.of(ProcessorOptions("p"), handler).is_async


def test_the_defaults_are_exactly_once_in_batches_from_the_beginning() -> None:
    options = ProcessorOptions("p")
    assert (options.delivery, options.handle, options.start_from) == (
        "exactly_once", "batch", "beginning",
    )  # fmt: skip
    assert options.on_failure == "stop"
    assert (options.concurrency, options.version) == (None, 1)
    assert (options.topics, options.types, options.retry) == (None, None, Retry())


def test_what_the_decorator_takes_is_what_the_options_hold() -> None:
    fields = {field.name for field in dataclasses.fields(ProcessorOptions)}
    assert set(Options.__annotations__) == fields - {"name"}


def test_the_checkpoint_belongs_to_a_version_of_a_name() -> None:
    assert ProcessorOptions("p", version=3).key == CheckpointKey("p", 3, 0)


def test_the_selection_is_of_topics_and_types() -> None:
    selection = ProcessorOptions("p", topics=("a",), types=["B", "C"]).selection
    parameters = selection.parameters()
    assert (parameters["topics"], parameters["types"]) == (["a"], ["B", "C"])


@pytest.mark.parametrize("handle", ["batch", "message"])
def test_concurrent_handlers_cannot_be_exactly_once(handle: str) -> None:
    with pytest.raises(ValueError, match=r"cannot share one transaction.*at_least_once"):
        options(concurrency=2, handle=handle)


def test_concurrent_handlers_take_one_message_each() -> None:
    with pytest.raises(ValueError, match="handle='message'"):
        options(concurrency=2, delivery="at_least_once")
    taken = options(concurrency=2, delivery="at_least_once", handle="message")
    assert taken.concurrency == 2


@pytest.mark.parametrize("option", ["handle", "delivery", "on_failure"])
def test_a_choice_that_is_none_is_refused_with_the_choices_there_are(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} is 'mistyped': expected one of"):
        options(**{option: "mistyped"})


@pytest.mark.parametrize("name", ["", "n" * 256])
def test_a_name_that_the_table_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 255"):
        ProcessorOptions(name)
    assert ProcessorOptions("n" * 255)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("version", 0),
        ("batch_size", 0),
        ("concurrency", 0),
        ("max_pending", 0),
        ("poll_seconds", 0),
        ("poll_seconds", -1.0),
        ("checkpoint_every", -1),
        ("checkpoint_seconds", -0.1),
    ],
)
def test_a_number_out_of_range_is_refused_when_the_processor_is_made(
    option: str, value: float
) -> None:
    with pytest.raises(ValueError, match=option):
        options(**{option: value})


@pytest.mark.parametrize("option", ["topics", "types"])
def test_a_text_where_a_list_is_meant_is_refused(option: str) -> None:
    """Taken as its letters it would match nothing, and the checkpoint would pass everything."""
    with pytest.raises(ValueError, match=rf"{option} is 'orders'.*\['orders'\]"):
        options(**{option: "orders"})


def options(**given: Any) -> ProcessorOptions:
    return ProcessorOptions("p", **given)


@pytest.mark.parametrize(
    "options",
    [{}, {"segments": 2, "delivery": "at_least_once"}, {"segments": 2, "concurrency": 2}],
)
def test_on_spark_it_needs_segments_and_nothing_that_does_not_fit(options: Any) -> None:
    with pytest.raises(ValueError, match=r"[Ss]park"):
        ProcessorOptions("p", engine="spark", **options)
