"""How one of a processor's handlers is called: with what, in which colour, and for which messages.

Beyond the messages, a handler is given what it names: `tx`, `trigger`, `segment`; and `session`,
which is another name for `tx` where `session=` says what that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from milepost.handlers import (
    Handler,
    is_async,
    parameters_of,
    refuse_class,
    refuse_generator,
    refuse_uncallable,
    signature_of,
)
from milepost.processors.self_checkpointing.registration import participant_of
from milepost.records import Segment
from milepost.telemetry import otel

if TYPE_CHECKING:
    from milepost.binding import Binding
    from milepost.processors.self_checkpointing.api import Checkpointing, Trigger
    from milepost.records import RecordedMessage

Delivery: TypeAlias = Literal["exactly_once", "at_least_once"]
Arguments: TypeAlias = "list[RecordedMessage] | RecordedMessage"


@dataclass(frozen=True, slots=True)
class Supply:
    """What can be given to a handler that asks for it."""

    segment: Segment = Segment.WHOLE
    trigger: Trigger | None = None


NOTHING = Supply()
RESERVED = ("tx", "trigger", "segment")
_REASONS = {
    "tx": "Only ordinary handlers of an exactly-once processor share its transaction.",
    "trigger": "Only a handler that inherits milepost.Checkpointing has one: the work of any other "
    "counts as done when it returns.",
}


@dataclass(frozen=True, slots=True)
class Handling:
    """One handler of a processor. `participant` is the object that checkpoints itself, if the
    handler is one or is a method of one."""

    handler: Handler
    is_async: bool
    names: frozenset[str]  # of `tx`, `session`, `trigger`, `segment`
    is_given_tx_second: bool
    participant: Checkpointing | None
    skip_on_replay: bool
    processor: str
    types: frozenset[str] | None = None  # that it handles; None: all that are read

    def __call__(
        self,
        arguments: Arguments,
        supply: Supply,
        tx: Any = None,
    ) -> Any:
        """What the handler returns: a coroutine if it is async."""
        named: dict[str, Any] = {}
        if self.names:  # most handlers name nothing, and are called for every message
            given = {
                "tx": tx,
                "session": tx,
                "trigger": supply.trigger,
                "segment": supply.segment,
            }
            named = {name: given[name] for name in self.names}
        handler = self.handler
        if otel is not None:
            about = otel.about_processor(self.processor, is_async=self.is_async)
            handler = partial(otel.processed, handler, about)
        if self.is_given_tx_second:
            return handler(arguments, tx, **named)
        return handler(arguments, **named)

    def seen_of(self, arguments: Arguments) -> Arguments | None:
        """What of a call's arguments this handler is to see; None: it is not called."""
        if not self.skip_on_replay:
            return arguments
        if isinstance(arguments, list):
            return [message for message in arguments if not message.replaying] or None
        return None if arguments.replaying else arguments


def handling(
    processor: str,
    delivery: Delivery,
    handler: Handler,
    *,
    skip_on_replay: bool,
    binding: Binding | None = None,
) -> Handling:
    """Looks at the handler once, and refuses what could not be called later."""
    refuse_class(handler)
    refuse_uncallable(handler)
    refuse_generator(handler)
    participant = participant_of(handler)
    has_tx = delivery == "exactly_once" and participant is None
    transaction = _transaction_names(binding) if has_tx else set()
    offered = {"segment"} | transaction | ({"trigger"} if participant else set())
    parameters = parameters_of(handler)
    names = frozenset(offered.intersection(parameters.names))
    is_tx_named = not transaction.isdisjoint(names)
    second = parameters.second(besides=RESERVED) if has_tx and not is_tx_named else None
    if missing := parameters.required - offered - {second}:
        raise _unavailable(processor, handler, sorted(missing))
    is_given_tx_second = has_tx and not is_tx_named and (second is not None or not names)
    _refuse_narrow(processor, handler, names, is_given_tx_second=is_given_tx_second)
    if has_tx and binding is not None:
        binding.check(is_async=is_async(handler))
    return Handling(
        handler=handler,
        is_async=is_async(handler),
        names=names,
        is_given_tx_second=is_given_tx_second,
        participant=participant,
        skip_on_replay=skip_on_replay,
        processor=processor,
    )


def _transaction_names(binding: Binding | None) -> set[str]:
    return {"tx"} if binding is None else {"tx", "session"}


def _refuse_narrow(
    processor: str, handler: Handler, names: frozenset[str], *, is_given_tx_second: bool
) -> None:
    """One that takes fewer arguments than it is given. A decorator has the parameters of what it
    wraps only by name."""
    if (signature := signature_of(handler, is_own=True)) is None:
        return
    first = ("messages", "tx") if is_given_tx_second else ("messages",)
    try:
        signature.bind(*first, **dict.fromkeys(names))
    except TypeError as error:
        given = ", ".join([*first, *(f"{name}=..." for name in sorted(names))])
        remedy = f"Declare it as def handle({given})."
        if hasattr(handler, "__wrapped__"):
            remedy = "It must pass them on to what it wraps: let it take *args and **kwargs."
        raise TypeError(
            f"Processor {processor!r}: {handler!r} cannot be called with ({given}), which is what "
            f"it is given: {error}. {remedy}"
        ) from error


def refuse_two_colours(processor: str, handlers: Sequence[Handling]) -> None:
    """Handlers of one transaction share its connection, and a connection has one colour."""
    colours = {each.is_async for each in handlers if each.participant is None}
    if len(colours) > 1:
        raise TypeError(
            f"Processor {processor!r}: its handlers share one transaction, so they are all def or "
            "all async def. Make them alike, or take two processors."
        )


def _unavailable(processor: str, handler: Handler, missing: list[str]) -> TypeError:
    reasons = " ".join(_REASONS.get(name, "") for name in missing)
    return TypeError(
        f"Processor {processor!r}: nothing can be given to {handler!r} for its parameter "
        f"{', '.join(missing)}. {reasons}".rstrip()
    )
