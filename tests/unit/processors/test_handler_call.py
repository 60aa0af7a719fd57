"""Several handlers of one processor, and what each of them is given."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from milepost import Checkpointing, Position, RecordedMessage, Segment, Trigger
from milepost.processors import Definition, ProcessorOptions
from milepost.processors.handler_call import Delivery, Handling, Supply
from milepost.processors.self_checkpointing.reconcile import Report

TX: Any = object()
TRIGGER = Trigger(Segment(1, 3), lambda: None)
SUPPLY = Supply(Segment(1, 3), TRIGGER)


class Model(Checkpointing):
    def __call__(self, messages: Any) -> None: ...
    def handle(self, messages: Any, trigger: Trigger, segment: Segment) -> Any:
        return (trigger, segment)

    async def handle_async(self, messages: Any) -> None: ...
    def wants_tx(self, messages: Any, tx: Any) -> None: ...

    @classmethod
    def of_the_class(cls, messages: Any) -> None: ...

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        return requested


def message(position: int, *, type_: str = "Counted", replaying: bool = False) -> RecordedMessage:
    now = datetime.now(UTC)
    return RecordedMessage(type_, None, Position(0, position), now, replaying=replaying)


def definition(handler: Any, delivery: Delivery = "exactly_once", **given: Any) -> Definition:
    return Definition.of(ProcessorOptions("p", delivery=delivery), handler, **given)


def only(of: Definition) -> Handling:
    (handling,) = of.handlers
    return handling


def test_tx_is_the_second_argument_whatever_it_is_called() -> None:
    def handler(messages: Any, connection: Any) -> Any:
        return connection

    assert only(definition(handler))([], SUPPLY, TX) is TX


def test_tx_and_segment_are_given_by_name_in_any_order() -> None:
    def handler(messages: Any, segment: Segment, tx: Any) -> Any:
        return (segment, tx)

    assert only(definition(handler))([], SUPPLY, TX) == (Segment(1, 3), TX)


def test_the_segment_is_given_beside_a_tx_of_another_name() -> None:
    def handler(messages: Any, connection: Any, *, segment: Segment) -> Any:
        return (connection, segment)

    assert only(definition(handler))([], SUPPLY, TX) == (TX, Segment(1, 3))


def test_an_at_least_once_handler_gets_the_messages_alone() -> None:
    def handler(*arguments: Any) -> Any:
        return arguments

    assert only(definition(handler, "at_least_once"))([], SUPPLY) == ([],)


def test_a_tx_that_was_bound_before_stays_what_it_is() -> None:
    def handler(messages: Any, tx: Any) -> Any:
        return tx

    assert only(definition(partial(handler, tx=1), "at_least_once"))([], SUPPLY) == 1


def test_a_self_checkpointing_handler_is_given_trigger_and_segment() -> None:
    handling = only(definition(Model().handle, "at_least_once"))
    assert handling([], SUPPLY) == (TRIGGER, Segment(1, 3))


def test_the_object_behind_a_handler_is_found_once() -> None:
    model = Model()
    found = definition(model, "at_least_once")
    for handler in (model.handle, partial(model.handle_async)):
        found = found.with_handler(handler)
    assert found.participants == (model,)
    assert [each.participant is model for each in found.handlers] == [True] * 3


def test_two_objects_that_are_equal_are_two_participants() -> None:
    class Equal(Model):
        __hash__ = None  # type: ignore[assignment]  # as a dataclass has it

        def __eq__(self, other: object) -> bool:
            return True

    found = definition(Equal(), "at_least_once").with_handler(Equal())
    assert len(found.participants) == 2


def test_the_mode_is_deferred_only_if_all_handlers_checkpoint_themselves() -> None:
    def ordinary(messages: Any, tx: Any) -> None: ...

    assert definition(ordinary).mode is None
    assert definition(Model()).mode == "deferred"
    assert definition(Model()).with_handler(ordinary).mode == "auto"
    assert definition(ordinary).with_handler(Model()).mode == "auto"


def test_one_segment_at_least_where_a_handler_checkpoints_itself() -> None:
    assert definition(print).segments is None
    assert definition(Model()).segments == 1
    options = ProcessorOptions("p", segments=4, delivery="at_least_once")
    assert Definition.of(options, Model()).segments == 4


def test_an_ordinary_handler_has_no_trigger() -> None:
    def handler(messages: Any, tx: Any, trigger: Trigger) -> None: ...

    with pytest.raises(TypeError, match=r"parameter trigger.*inherits milepost.Checkpointing"):
        definition(handler)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_self_checkpointing_handler_has_no_tx(delivery: Delivery) -> None:
    with pytest.raises(TypeError, match=r"parameter tx.*share its transaction"):
        definition(Model().wants_tx, delivery)


def test_an_at_least_once_handler_has_no_tx() -> None:
    def handler(messages: Any, tx: Any) -> None: ...

    with pytest.raises(TypeError, match=r"parameter tx"):
        definition(handler, "at_least_once")


def test_a_parameter_that_nobody_fills_is_refused_when_the_handler_is_registered() -> None:
    def handler(messages: Any, tx: Any, clock: Any) -> None: ...

    with pytest.raises(TypeError, match="parameter clock"):
        definition(handler)


def test_callbacks_without_the_base_class_would_never_be_called() -> None:
    class Forgetful:
        def __call__(self, messages: Any) -> None: ...
        def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> None: ...

    with pytest.raises(TypeError, match=r"inherit milepost\.Checkpointing"):
        definition(Forgetful(), "at_least_once")


def test_a_class_is_no_handler() -> None:
    with pytest.raises(TypeError, match=r"Model is a class.*Pass an instance"):
        definition(Model, "at_least_once")
    with pytest.raises(TypeError, match="would never be called"):
        definition(Model.of_the_class, "at_least_once")


def test_handlers_of_one_transaction_have_one_colour() -> None:
    def plain(messages: Any, tx: Any) -> None: ...
    async def coloured(messages: Any, tx: Any) -> None: ...

    with pytest.raises(TypeError, match="all def or all async def"):
        definition(plain).with_handler(coloured)
    mixed = definition(plain).with_handler(Model().handle_async)
    assert (mixed.is_tx_async, mixed.is_async) == (False, True)


def test_without_a_transaction_colours_mix() -> None:
    def plain(messages: Any) -> None: ...
    async def coloured(messages: Any) -> None: ...

    mixed = definition(plain, "at_least_once").with_handler(coloured)
    assert [each.is_async for each in mixed.handlers] == [False, True]


def test_a_handler_that_skips_replays_sees_the_rest() -> None:
    handling = only(definition(print, "at_least_once", skip_on_replay=True))
    old, new = message(1, replaying=True), message(2)
    assert handling.seen_of([old, new]) == [new]
    assert handling.seen_of([old]) is None
    assert handling.seen_of(old) is None
    assert handling.seen_of(new) is new


def test_any_other_handler_sees_replays_too() -> None:
    handling = only(definition(print, "at_least_once"))
    batch = [message(1, replaying=True), message(2)]
    assert handling.seen_of(batch) is batch


def test_what_runs_keeps_the_handlers_it_was_started_with() -> None:
    first = definition(print)
    assert len(first.with_handler(print).handlers) == 2
    assert len(first.handlers) == 1
