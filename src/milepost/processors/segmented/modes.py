"""Which kind of work fits a processor's handlers, and what cannot run at all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from milepost.processors.participants import Participants
from milepost.processors.segmented.auto import AutoWork
from milepost.processors.segmented.deferred import DeferredWork
from milepost.processors.segmented.self_checkpointing import Setbacks
from milepost.processors.segmented.work import SegmentWork, Surroundings

if TYPE_CHECKING:
    from milepost.processors.colour import EventLoop
    from milepost.processors.definition import Definition
    from milepost.processors.segmented.claims import Claim

MakeWork: TypeAlias = "Callable[[Claim, Callable[[], None]], SegmentWork]"
log = logging.getLogger("milepost.processors")


def work_of(surroundings: Surroundings, loop: EventLoop | None) -> MakeWork:
    """What makes the work of a claim, for one instance."""
    definition = surroundings.definition
    if definition.mode is None or loop is None:
        return lambda claim, wake: SegmentWork(surroundings, claim, wake)
    kind = AutoWork if definition.mode == "auto" else DeferredWork
    timeout = definition.options.durability_timeout
    participants = Participants(definition.participants, loop, timeout)
    setbacks = Setbacks()
    return lambda claim, wake: kind(surroundings, claim, wake, participants, setbacks)


def refuse_unfit(definition: Definition) -> None:
    """Seen only at the start: handlers are added one by one."""
    options, name = definition.options, definition.options.name
    if definition.mode == "deferred" and options.delivery == "exactly_once":
        raise ValueError(
            f"Processor {name!r}: all its handlers checkpoint themselves, so there is no "
            "transaction in which effects and checkpoint could commit together. Take "
            "delivery='at_least_once'."
        )
    if definition.mode == "deferred" and options.on_failure != "stop":
        raise ValueError(
            f"Processor {name!r}: on_failure={options.on_failure!r} sets messages aside as the "
            "checkpoint passes them, and this one moves later, when its handlers say so. Take "
            "on_failure='stop', and let the handlers set aside what they cannot handle."
        )
    if definition.mode is not None and options.inbox:
        raise ValueError(
            f"Processor {name!r}: an inbox knows what was handled, but the work of handlers that "
            "checkpoint themselves is durable only later. Leave it out."
        )


def log_mode(definition: Definition) -> None:
    """The downgrade is nobody's choice, so it is said: what was meant to be deferred is not."""
    if definition.mode == "auto":
        log.warning(
            "processor=%s mode=auto: %s shares it with handlers that do not checkpoint themselves, "
            "so the checkpoint moves, and its work must be durable, with every batch. To defer it, "
            "give it a processor of its own.",
            definition.options.name,
            ", ".join(type(each).__name__ for each in definition.participants),
        )  # fmt: skip
    elif definition.mode == "deferred":
        log.info("processor=%s mode=deferred", definition.options.name)
