"""Handlers by message type: who is called with what, and what is refused."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from milepost import Checkpointing, Milepost, Position, RecordedMessage, Segment, on
from milepost.processors import Definition, ProcessorOptions
from milepost.processors.deliver.transaction import invocations
from milepost.processors.self_checkpointing.reconcile import Report
from tests.unit.processors.test_handler_call import message

PLACED, PAID, SHIPPED = "OrderPlaced", "OrderPaid", "OrderShipped"
NOWHERE = "postgresql://nowhere"


def typed(type_: str, number: int, *, replaying: bool = False) -> RecordedMessage:
    return message(number, type_=type_, replaying=replaying)


def empty(**options: Any) -> Definition:
    return Definition(ProcessorOptions("p", delivery="at_least_once", **options))


def called(definition: Definition, arguments: Any) -> list[tuple[str, Any]]:
    """The handlers that are called, by name, with the numbers of what they are given."""
    return [
        (
            each.handler.__name__,
            [m.position.position for m in seen] if isinstance(seen, list) else seen,
        )
        for each, seen in invocations(definition.ordinary, arguments)
    ]


def place(messages: Any) -> None: ...
def pay(messages: Any) -> None: ...
def ship(messages: Any) -> None: ...
def everything(messages: Any) -> None: ...


def both() -> Definition:
    return empty().with_handler(place, types=[PLACED]).with_handler(pay, types=[PAID])


def test_one_message_goes_to_the_handlers_of_its_type() -> None:
    one = typed(PAID, 1)
    assert called(both(), one) == [("pay", one)]
    assert called(both(), typed(SHIPPED, 1)) == []


def test_a_batch_is_cut_where_the_handler_changes_so_that_its_order_is_kept() -> None:
    batch = [typed(t, n) for n, t in enumerate([PLACED, PLACED, PAID, PLACED, SHIPPED, PLACED])]
    assert called(both(), batch) == [
        ("place", [0, 1]),
        ("pay", [2]),
        ("place", [3]),
        ("place", [5]),
    ]


def test_several_types_of_one_handler_are_one_run() -> None:
    definition = empty().with_handler(place, types=[PLACED, PAID])
    assert called(definition, [typed(PLACED, 1), typed(PAID, 2)]) == [("place", [1, 2])]


def test_several_handlers_of_one_type_are_called_in_order_for_each_run() -> None:
    definition = both().with_handler(ship, types=[PLACED])
    assert called(definition, [typed(PLACED, 1), typed(PAID, 2), typed(PLACED, 3)]) == [
        ("place", [1]),
        ("ship", [1]),
        ("pay", [2]),
        ("place", [3]),
        ("ship", [3]),
    ]


def test_handlers_of_every_type_see_the_whole_batch_before_and_after() -> None:
    batch = [typed(PLACED, 1), typed(PAID, 2)]
    first = empty().with_handler(everything).with_handler(place, types=[PLACED])
    assert called(first, batch) == [("everything", [1, 2]), ("place", [1])]
    between = empty().with_handler(place, types=[PLACED]).with_handler(everything)
    between = between.with_handler(pay, types=[PAID])
    assert called(between, batch) == [("place", [1]), ("pay", [2]), ("everything", [1, 2])]


def test_a_handler_by_type_that_skips_replays_sees_the_rest() -> None:
    definition = empty().with_handler(place, types=[PLACED], skip_on_replay=True)
    assert called(definition, [typed(PLACED, 1, replaying=True), typed(PLACED, 2)]) == [
        ("place", [2])
    ]
    assert called(definition, typed(PLACED, 1, replaying=True)) == []


def test_only_the_handled_types_are_read() -> None:
    assert both().options.types == [PAID, PLACED]
    assert both().with_handler(everything).options.types is None


def test_the_types_of_the_options_bound_those_of_the_handlers() -> None:
    definition = empty(types=[PLACED, PAID]).with_handler(place, types=[PLACED])
    assert definition.options.types == [PLACED]
    assert definition.with_handler(everything).options.types == [PLACED, PAID]
    with pytest.raises(ValueError, match=r"'OrderShipped'.*would never be called"):
        definition.with_handler(ship, types=[SHIPPED])


class Orders:
    @on(PLACED)
    def place(self, messages: Any) -> None: ...

    @on(PAID, SHIPPED)
    def move(self, messages: Any) -> None: ...

    def untouched(self, messages: Any) -> None: ...


def test_the_marked_methods_of_an_object_are_its_handlers() -> None:
    definition = empty().with_handler(Orders())
    assert [(e.handler.__name__, sorted(e.types or ())) for e in definition.handlers] == [
        ("place", [PLACED]),
        ("move", [PAID, SHIPPED]),
    ]
    assert definition.options.types == [PAID, PLACED, SHIPPED]


def test_a_method_that_overrides_a_marked_one_handles_its_types() -> None:
    class Later(Orders):
        def place(self, messages: Any) -> None: ...

        @on(PAID)
        def move(self, messages: Any) -> None: ...

    found = empty().with_handler(Later()).handlers
    assert [(e.handler.__qualname__.split(".")[-2], sorted(e.types or ())) for e in found] == [
        ("Later", [PLACED]),
        ("Later", [PAID]),
    ]


def test_marks_add_up_and_survive_wrappers() -> None:
    def traced(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*arguments: Any) -> Any:
            return function(*arguments)

        return wrapper

    class Wrapped:
        @traced
        @on(PLACED)
        @on(PAID)
        def move(self, messages: Any) -> None: ...

        @staticmethod
        @on(SHIPPED)
        def ship(messages: Any) -> None: ...

    handlers = empty().with_handler(Wrapped()).handlers
    assert [each.types for each in handlers] == [frozenset({PLACED, PAID}), frozenset({SHIPPED})]


def test_a_marked_function_is_a_handler_by_type() -> None:
    @on(PLACED)
    def marked(messages: Any) -> None: ...

    assert empty().with_handler(marked).options.types == [PLACED]
    with pytest.raises(TypeError, match="marked for"):
        empty().with_handler(marked, types=[PAID])


def test_the_methods_of_one_self_checkpointing_object_are_one_participant() -> None:
    class Projection(Orders, Checkpointing):
        def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
            return requested

    projection = Projection()
    definition = empty().with_handler(projection)
    assert (definition.participants, definition.mode) == ((projection,), "deferred")


def test_an_object_that_is_called_and_has_marked_methods_is_refused() -> None:
    class Unclear(Orders):
        def __call__(self, messages: Any) -> None: ...

    with pytest.raises(TypeError, match=r"Unclear.*__call__.*@on"):
        empty().with_handler(Unclear())


def test_a_class_with_marked_methods_is_refused() -> None:
    with pytest.raises(TypeError, match="Orders is a class"):
        empty().with_handler(Orders)


@pytest.mark.parametrize("types", [(), ("",), (1,), (["OrderPlaced"],)])
def test_types_are_names(types: Any) -> None:
    with pytest.raises(TypeError, match="on"):
        on(*types)
    with pytest.raises(TypeError, match="on"):
        Milepost(NOWHERE).processor("p").on(*types)


def test_a_mark_without_its_parentheses_is_refused() -> None:
    with pytest.raises(TypeError, match=r'@on\("OrderPlaced"\)'):
        on(place)  # type: ignore[arg-type]


def test_a_processor_may_begin_with_a_handler_by_type() -> None:
    mp = Milepost(NOWHERE)
    billing = mp.processor("billing")
    assert not mp.processors
    assert billing.on(PLACED)(place_with_tx) is place_with_tx
    billing.on(PAID)(pay_with_tx)
    assert mp.processors == {"billing": billing}
    assert billing.definition.options.types == [PAID, PLACED]
    with pytest.raises(TypeError, match=r"handlers by type.*place_with_tx"):
        mp.processors["billing"]([], None)


def place_with_tx(messages: Any, tx: Any) -> None: ...
def pay_with_tx(messages: Any, tx: Any) -> None: ...


def test_a_decorated_processor_is_called_as_its_handler() -> None:
    bill = Milepost(NOWHERE).processor("billing")(lambda messages, tx: (messages, tx))
    bill.on(PLACED)(place_with_tx)
    assert bill([], None) == ([], None)


def test_a_name_is_taken_by_the_first_handler() -> None:
    mp = Milepost(NOWHERE)
    first, second = mp.processor("billing"), mp.processor("billing")
    first.on(PLACED)(place_with_tx)
    with pytest.raises(ValueError, match="There is a processor 'billing' already"):
        second.on(PAID)(pay_with_tx)
    with pytest.raises(ValueError, match="There is a processor 'billing' already"):
        first(place_with_tx)


def test_a_processor_without_a_handler_does_not_run() -> None:
    with pytest.raises(ValueError, match="'billing' has no handler"):
        Milepost(NOWHERE).processor("billing").run()
