"""Finds the self-checkpointing object behind a handler. Refuses, when it is registered, what would
fail or be ignored when it runs."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from milepost.handlers import layers_of, refuse_arguments
from milepost.processors.listeners import SegmentListener
from milepost.processors.self_checkpointing.api import CALLBACKS, Checkpointing

if TYPE_CHECKING:
    from milepost.handlers import Handler

RESERVED_PREFIXES = ("on_segment_", "on_checkpoint_")
ALIKE = 0.85  # on_segement_claimed and onSegmentLost are; on_order_placed and segment_lost are not
_PLAIN = {name.replace("_", ""): name for name in CALLBACKS}


def participant_of(handler: Handler) -> Checkpointing | None:
    """The handler itself, what it is a method of, or what it wraps."""
    around: list[object] = []
    for layer in layers_of(handler):
        if isinstance(layer, Checkpointing):
            for each in around:
                # Of its class: what it passes on by __getattr__ are the participant's callbacks.
                _refuse_ignored(each, type(each))
            _refuse_both(layer)
            refuse_unfit_callbacks(layer)
            return layer
        around.append(layer)
    for each in around:
        if not isinstance(each, SegmentListener):
            _refuse_ignored(each, each)
    return None


def _refuse_both(participant: Checkpointing) -> None:
    if isinstance(participant, SegmentListener):
        raise TypeError(
            f"{type(participant).__name__} is Checkpointing, which has the callbacks of "
            "SegmentListener, with other parameters. Remove SegmentListener."
        )


def refuse_unfit_callbacks(participant: Checkpointing) -> None:
    for name, parameters in CALLBACKS.items():
        where = f"{type(participant).__name__}.{name}"
        refuse_arguments(where, getattr(participant, name), parameters)
    for name in dir(type(participant)):
        if name not in CALLBACKS and callable(getattr(type(participant), name, None)):
            _refuse_misspelt(type(participant).__name__, name)


def _refuse_ignored(layer: object, looked_at: object) -> None:
    if ignored := [name for name in CALLBACKS if hasattr(looked_at, name)]:
        raise TypeError(
            f"{layer!r} has {', '.join(ignored)}, which would never be called: let its class "
            "inherit milepost.Checkpointing, if it decides when its work is durable, or else "
            "milepost.SegmentListener."
        )


def _refuse_misspelt(owner: str, name: str) -> None:
    alike = get_close_matches(name.lower().replace("_", ""), _PLAIN, n=1, cutoff=ALIKE)
    is_meant = name.startswith("on") and bool(alike)
    if not is_meant and not name.startswith(RESERVED_PREFIXES):
        return
    meant = f"Did you mean {_PLAIN[alike[0]]}?" if alike else "Rename it."
    raise TypeError(
        f"{owner}.{name} is never called. {meant} A handler that checkpoints itself is called with "
        f"{', '.join(CALLBACKS)}; other names must not begin with on_segment_ or on_checkpoint_."
    )
