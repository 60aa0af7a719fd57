"""Handlers by message type: `@on("OrderPlaced")` marks them, and each is given what it handles.

All handlers by type of a processor are called in the order of the log: a batch is cut into runs,
where the handlers change. So one of them never sees a message before another has handled what comes
first, of the same key or of any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.handlers import Handler, refuse_class

if TYPE_CHECKING:
    from milepost.processors.handler_call import Arguments, Handling

T = TypeVar("T")
_MARK = "_milepost_types"


def on(*types: str) -> Callable[[T], T]:
    """Marks a method of a handler object, or a function, as the handler of these types:
    `@on("OrderPlaced")`. What it is given is what any handler of the processor is given."""
    names = type_names(types)

    def mark(handler: T) -> T:
        setattr(handler, _MARK, names | marked(handler))
        return handler

    return mark


def type_names(types: Sequence[str]) -> frozenset[str]:
    if not types or not all(isinstance(each, str) and each for each in types):
        given = ", ".join(map(repr, types)) or "nothing"
        raise TypeError(
            f'on(...) takes one or more message types, as in @on("OrderPlaced"), not {given}.'
        )
    return frozenset(types)


def marked(handler: object) -> frozenset[str]:
    """The types it is marked for; none if it is not. A staticmethod hides the mark of its
    function."""
    for each in (handler, getattr(handler, "__wrapped__", None)):
        if found := getattr(each, _MARK, None):
            return frozenset(found)
    return frozenset()


def is_handler(value: object) -> bool:
    return callable(value) or bool(_marked_names(value))


def routes(
    handler: Any, types: Sequence[str] | None = None
) -> list[tuple[Handler, frozenset[str] | None]]:
    """The handlers behind what was registered, each with its types; None: all of them. An object
    with marked methods is those methods."""
    refuse_class(handler)
    mark, methods = marked(handler), _marked_names(handler)
    if types is not None:
        if mark or methods:
            raise TypeError(
                f"{handler!r} is marked for types of its own by @on. Remove the marks, or register "
                "it without types, with `processor.handler`."
            )
        return [(handler, type_names(types))]
    if not methods:
        return [(handler, mark or None)]
    if callable(handler):
        raise TypeError(
            f"{type(handler).__name__} has a __call__ for every message and methods marked by @on. "
            "Remove one of them, or register the methods one by one."
        )
    return [(getattr(handler, name), types_) for name, types_ in methods.items()]


def _marked_names(owner: object) -> dict[str, frozenset[str]]:
    """Of its methods, in the order of their definitions. A method that overrides a marked one
    handles the same types, unless it is marked itself: or they would be passed silently."""
    found: dict[str, frozenset[str]] = {}
    for base in reversed(type(owner).__mro__):
        for name, attribute in vars(base).items():
            if types := marked(attribute):
                found[name] = types
    return found


def runs(
    handlers: Sequence[Handling], arguments: Arguments
) -> Iterator[tuple[Handling, Arguments]]:
    """The calls of handlers by type, in the order of the messages. What nobody handles passes."""
    if not isinstance(arguments, list):
        for handling in handlers_of(handlers, arguments.type):
            yield handling, arguments
        return
    chosen = {type_: handlers_of(handlers, type_) for type_ in {m.type for m in arguments}}
    for who, messages in groupby(arguments, lambda message: chosen[message.type]):
        run = list(messages)
        for handling in who:
            yield handling, run


def handlers_of(handlers: Sequence[Handling], type_: str) -> list[Handling]:
    return [each for each in handlers if each.types is None or type_ in each.types]
