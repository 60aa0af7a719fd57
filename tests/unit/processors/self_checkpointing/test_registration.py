"""What is refused when a handler is registered, because it would fail or be ignored later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper, wraps
from typing import Any

import pytest

from milepost import LATEST, Checkpointing, Milepost, Position, Segment, Trigger
from milepost.processors import Definition, ProcessorOptions
from milepost.processors.handler_call import Supply
from milepost.processors.self_checkpointing.api import CALLBACKS, Report

SEGMENT = Segment(1, 3)
TRIGGER = Trigger(SEGMENT, lambda: None)


def ignored(*_arguments: Any) -> None: ...


class Model(Checkpointing):
    def __call__(self, messages: Any, segment: Segment) -> Any:
        return segment

    def handle(self, messages: Any, trigger: Trigger) -> Any:
        return trigger

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        return requested


def registered(handler: Any) -> Definition:
    return Definition.of(ProcessorOptions("p", delivery="at_least_once"), handler)


def traced(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator, as people write them."""

    @wraps(handler)
    def call(*args: Any, **kwargs: Any) -> Any:
        return handler(*args, **kwargs)

    return call


class Traced:
    """A decorator that is a class."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.inner = handler
        update_wrapper(self, handler)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs)


WRAPPINGS: dict[str, Callable[[Model], Any]] = {
    "itself": lambda model: model,
    "a method": lambda model: model.handle,
    "a decorated object": traced,
    "a decorated method": lambda model: traced(model.handle),
    "decorated twice": lambda model: traced(traced(model.handle)),
    "a class that decorates": Traced,
    "a partial": lambda model: partial(model.handle),
    "a decorated partial": lambda model: traced(partial(model.handle)),
    "a partial of what is decorated": lambda model: partial(partial(traced(model))),
}


@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
def test_a_participant_is_found_however_it_is_wrapped(wrap: Callable[[Model], Any]) -> None:
    model = Model()
    found = registered(wrap(model))
    assert (found.participants, found.mode) == ((model,), "deferred")
    assert found.handlers[0]([], Supply(SEGMENT, TRIGGER)) in (SEGMENT, TRIGGER)


def test_a_method_of_what_decorates_a_participant_is_the_participants() -> None:
    model = Model()
    assert registered(Traced(model).__call__).participants == (model,)


def test_a_method_that_its_class_decorates_belongs_to_its_object() -> None:
    class Decorated(Model):
        handle = traced(Model.handle)

    model = Decorated()
    assert registered(model.handle).participants == (model,)


def test_what_wraps_itself_is_followed_once() -> None:
    """Following it must end."""

    def handler(messages: Any) -> None: ...

    def other(messages: Any) -> None: ...

    handler.__wrapped__ = other  # type: ignore[attr-defined]  # as wraps does
    other.__wrapped__ = handler  # type: ignore[attr-defined]
    assert registered(handler).mode is None


def test_callbacks_on_what_wraps_a_participant_would_never_be_called() -> None:
    class Counting(Traced):
        def on_segment_lost(self, segment: Segment) -> None: ...

    with pytest.raises(TypeError, match=r"on_segment_lost, which would never be called"):
        registered(Counting(Model()))


@pytest.mark.parametrize("name", CALLBACKS)
def test_what_looks_like_a_participant_and_is_none_is_refused(name: str) -> None:
    class Forgetful:
        def __call__(self, messages: Any) -> None: ...

    setattr(Forgetful, name, ignored)
    for handler in (Forgetful(), Forgetful().__call__, traced(Forgetful()), partial(Forgetful())):
        with pytest.raises(TypeError, match=rf"{name}.*inherit milepost\.Checkpointing"):
            registered(handler)


def test_a_decorator_that_does_not_pass_on_what_the_handler_names_is_refused() -> None:
    model = Model()

    @wraps(model)
    def narrow(messages: Any) -> None: ...

    with pytest.raises(TypeError, match=r"cannot be called with \(messages, segment=\.\.\.\)"):
        registered(narrow)


def test_an_object_that_cannot_be_called_is_refused() -> None:
    class Silent(Checkpointing):
        def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
            return LATEST

    for handler in (Silent(), object()):
        with pytest.raises(TypeError, match=r"cannot be called.*def __call__\(self, messages\)"):
            registered(handler)


class Wrong:
    """Callbacks, each with parameters that it is not called with."""

    def on_segment_claimed(self, segment: Segment) -> None: ...
    def on_checkpoint_advanced(self, requested: Position) -> None: ...
    def on_segment_released(self, segment: Segment, up_to: Position, reason: str) -> None: ...
    def on_segment_lost(self, segment: Segment, *, why: str) -> None: ...


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_callback_that_does_not_take_what_it_is_given_is_refused(name: str) -> None:
    wrong = type("Wrong", (Model,), {name: getattr(Wrong, name)})
    with pytest.raises(TypeError, match=rf"Wrong\.{name} .* is called with \(segment"):
        registered(wrong())


def test_a_callback_may_take_more_than_it_is_given_and_be_anything_that_can_be_called() -> None:
    class Generous(Model):
        def on_segment_claimed(self, *arguments: Any) -> None: ...
        async def on_segment_lost(self, segment: Segment, why: str = "") -> None: ...

    assert registered(Generous()).mode == "deferred"


def test_a_callback_that_is_no_method_is_refused() -> None:
    wrong = type("Wrong", (Model,), {"on_segment_lost": "no method"})
    with pytest.raises(TypeError, match=r"Wrong\.on_segment_lost .*'no method'"):
        registered(wrong())


MISSPELT = {
    "on_segment_realeased": "on_segment_released",
    "on_segment_release": "on_segment_released",
    "on_segement_claimed": "on_segment_claimed",
    "onSegmentLost": "on_segment_lost",
    "on_checkpoint_advance": "on_checkpoint_advanced",
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_callback_is_refused_with_the_right_name(name: str) -> None:
    wrong = type("Wrong", (Model,), {name: ignored})
    with pytest.raises(TypeError, match=rf"Wrong\.{name}.*Did you mean {MISSPELT[name]}\?"):
        registered(wrong())


def test_any_other_name_that_only_callbacks_have_is_refused_too() -> None:
    wrong = type("Wrong", (Model,), {"on_segment_assigned": ignored})
    with pytest.raises(TypeError, match=r"Wrong\.on_segment_assigned is never called"):
        registered(wrong())


@pytest.mark.parametrize("name", ["on_order_placed", "segment_lost", "_on_segment_opened", "once"])
def test_other_names_are_free(name: str) -> None:
    free = type("Free", (Model,), {name: ignored})
    assert registered(free()).mode == "deferred"


def test_the_default_delivery_is_refused_where_all_handlers_checkpoint_themselves() -> None:
    mp = Milepost("postgresql:///unused")
    with pytest.raises(ValueError, match=r"delivery='at_least_once'"):
        mp.processor("balances")(Model())
    assert "balances" not in mp.processors


def test_exactly_once_is_chosen_for_what_will_share_it_with_an_ordinary_handler() -> None:
    mp = Milepost("postgresql:///unused")
    made = mp.processor("balances", delivery="exactly_once")(Model())

    @made.handler
    def ordinary(messages: Any, tx: Any) -> None: ...

    assert made.definition.mode == "auto"
