"""Self-checkpointing handlers that do as the test says, and note what is done with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from milepost import LATEST, Checkpointing, Position, RecordedMessage, Segment, Trigger
from milepost.processors.self_checkpointing.reconcile import Report
from tests.waiting import wait_until

Reporting = Callable[[Segment, Position], Report]


@dataclass(frozen=True, slots=True)
class Call:
    """A callback that fired."""

    name: str
    segment: Segment
    position: Position | None = None


def all_of_it(segment: Segment, requested: Position) -> Report:
    return requested


class Model(Checkpointing):
    """Keeps the positions it was given, by segment, and its trigger of each."""

    def __init__(self, report: Reporting = all_of_it, at_release: Reporting | None = None) -> None:
        self.report, self.at_release = report, at_release or report
        self.triggers: dict[Segment, Trigger] = {}
        self.all_triggers: list[Trigger] = []
        self.handled: dict[Segment, list[Position]] = {}
        self.calls: list[Call] = []
        self.lock = threading.Lock()

    def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
        with self.lock:
            positions = [message.position for message in messages]
            self.handled.setdefault(segment, []).extend(positions)

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        self.triggers[segment] = trigger
        self.all_triggers.append(trigger)
        self.note("claimed", segment, trigger.start)

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        self.note("advanced", segment, requested)
        return self.report(segment, requested)

    def on_segment_released(self, segment: Segment, up_to: Position) -> Report:
        self.note("released", segment, up_to)
        return self.at_release(segment, up_to)

    def on_segment_lost(self, segment: Segment) -> None:
        self.note("lost", segment)

    def note(self, name: str, segment: Segment, position: Position | None = None) -> None:
        with self.lock:
            self.calls.append(Call(name, segment, position))

    @property
    def names(self) -> list[str]:
        """Which callbacks fired, in order."""
        with self.lock:
            return [call.name for call in self.calls]

    def positions(self) -> list[Position]:
        """All that it was given, segment by segment."""
        with self.lock:
            return [position for handled in self.handled.values() for position in handled]

    def asked_for(self, name: str) -> list[Position | None]:
        with self.lock:
            return [call.position for call in self.calls if call.name == name]

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.positions()) >= count)

    def wait_for_call(self, name: str, count: int = 1) -> None:
        wait_until(lambda: self.names.count(name) >= count)

    @property
    def trigger(self) -> Trigger:
        """Of the one segment there is."""
        (trigger,) = self.triggers.values()
        return trigger


class Eager(Model):
    """Asks for a checkpoint after every batch, by its parameter."""

    def __call__(  # type: ignore[override]  # a handler names what it wants
        self, messages: list[RecordedMessage], segment: Segment, trigger: Trigger
    ) -> None:
        Model.__call__(self, messages, segment)
        trigger.request()


def latest(segment: Segment, requested: Position) -> Report:
    return LATEST


def nothing(segment: Segment, requested: Position) -> Report:
    return None


def fixed(position: Position) -> Reporting:
    return lambda _segment, _requested: position


def failing(segment: Segment, requested: Position) -> Report:
    raise ConnectionError("the store is away")
