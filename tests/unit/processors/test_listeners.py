"""What is no segment listener is refused when it is registered."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import Checkpointing, Milepost, Position, Segment, SegmentListener
from milepost.processors import Definition, ProcessorOptions
from milepost.processors.self_checkpointing.reconcile import Report

OPTIONS = ProcessorOptions("p", segments=2, delivery="at_least_once")


def registered(handler: Any, options: ProcessorOptions = OPTIONS) -> Definition:
    return Definition.of(options, handler)


class Listener(SegmentListener):
    def __call__(self, messages: Any) -> None: ...
    def other(self, messages: Any) -> None: ...


def test_an_object_listens_once_whichever_of_its_methods_are_handlers() -> None:
    listener = Listener()
    definition = registered(listener).with_handler(listener.other)
    assert len(definition.listeners) == 1
    assert (definition.is_async, definition.mode, definition.participants) == (True, None, ())


def test_one_function_may_listen_to_several_events() -> None:
    processor = Milepost("postgresql://nowhere").processor("p", segments=2)
    processor.on_segment_released(processor.on_segment_lost(print))
    found = [list(each.events) for each in processor.definition.listeners]
    assert found == [["on_segment_lost"], ["on_segment_released"]]


def test_an_object_of_another_class_would_never_be_told() -> None:
    class Forgetful:
        def __call__(self, messages: Any) -> None: ...
        def on_segment_claimed(self, segment: Segment) -> None: ...

    with pytest.raises(TypeError, match=r"on_segment_claimed.*inherit .*milepost\.SegmentListener"):
        registered(Forgetful())


def test_a_misspelt_callback_is_refused() -> None:
    class Misspelt(Listener):
        def on_segment_realeased(self, segment: Segment) -> None: ...

    with pytest.raises(TypeError, match=r"on_segment_realeased.*on_segment_released"):
        registered(Misspelt())


def test_a_callback_of_another_shape_is_refused() -> None:
    class Shaped(Listener):
        def on_segment_claimed(self, segment: Segment, trigger: Any) -> None: ...  # type: ignore[override]

    with pytest.raises(TypeError, match=r"on_segment_claimed\(segment\)"):
        registered(Shaped())
    processor = Milepost("postgresql://nowhere").processor("p", segments=2)
    with pytest.raises(TypeError, match=r"on_segment_released\(segment\)"):
        processor.on_segment_released(lambda: None)  # type: ignore[type-var]


def test_a_self_checkpointing_object_has_these_callbacks_already() -> None:
    class Both(Listener, Checkpointing):  # type: ignore[misc]
        def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
            return requested

    with pytest.raises(TypeError, match="Remove SegmentListener"):
        registered(Both())


@pytest.mark.parametrize("is_function", [False, True])
def test_without_segments_nothing_is_claimed(is_function: bool) -> None:
    processor = Milepost("postgresql://nowhere").processor("p", delivery="at_least_once")
    with pytest.raises(ValueError, match=r"segments=N"):
        processor.on_segment_lost(print) if is_function else processor(Listener())


def test_on_spark_nothing_is_claimed() -> None:
    processor = Milepost("postgresql://nowhere").processor("p", segments=2, engine="spark")
    with pytest.raises(ValueError, match=r"engine='spark'.*claims nothing"):
        processor.on_segment_claimed(print)
