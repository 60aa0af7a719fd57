"""What a processor is: its name, what it reads, and how its handler wants to be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypedDict

from milepost.checkpoints import CheckpointKey
from milepost.handlers import Handler, is_async
from milepost.log import Selection, Start
from milepost.retry import Retry

Handle: TypeAlias = Literal["batch", "message"]
Delivery: TypeAlias = Literal["exactly_once", "at_least_once"]
OnConflict: TypeAlias = Literal["standby", "stop"]
OnFailure: TypeAlias = Literal["stop", "skip"]

_CHOICES = {
    "handle": ("batch", "message"),
    "delivery": ("exactly_once", "at_least_once"),
    "on_conflict": ("standby", "stop"),
    "on_failure": ("stop", "skip"),
}


class Options(TypedDict, total=False):
    """What `@mp.processor(name, ...)` takes; the defaults are in ProcessorOptions."""

    topics: Sequence[str] | None
    types: Sequence[str] | None
    version: int
    batch_size: int
    start_from: Start
    handle: Handle
    delivery: Delivery
    concurrency: int
    on_conflict: OnConflict
    on_failure: OnFailure
    retry: Retry
    inbox: bool
    inbox_seconds: float
    checkpoint_every: int
    checkpoint_seconds: float
    max_pending: int
    poll_seconds: float


@dataclass(frozen=True, slots=True)
class ProcessorOptions:
    """Everything about a processor but its handler; checked when it is made."""

    name: str
    topics: Sequence[str] | None = None
    types: Sequence[str] | None = None
    version: int = 1
    batch_size: int = 500
    start_from: Start = "beginning"
    handle: Handle = "batch"
    delivery: Delivery = "exactly_once"
    concurrency: int = 1
    on_conflict: OnConflict = "standby"
    on_failure: OnFailure = "stop"
    retry: Retry = field(default_factory=Retry)
    inbox: bool = False
    inbox_seconds: float = 86_400.0
    checkpoint_every: int = 100
    checkpoint_seconds: float = 5.0
    max_pending: int = 10_000
    poll_seconds: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= 255:
            raise ValueError("A processor's name takes 1 to 255 characters.")
        for option, choices in _CHOICES.items():
            value = getattr(self, option)
            if value not in choices:
                raise ValueError(f"{option} is {value!r}: expected one of {choices}.")
        if self.version < 1 or self.batch_size < 1 or self.concurrency < 1:
            raise ValueError("version, batch_size and concurrency are at least 1.")
        Selection(self.topics, self.types)  # refuses what it cannot mean
        self._check_pace()
        self._check_delivery()

    def _check_pace(self) -> None:
        if self.checkpoint_every < 0 or self.checkpoint_seconds < 0 or self.inbox_seconds < 0:
            raise ValueError(
                "checkpoint_every, checkpoint_seconds and inbox_seconds must not be negative."
            )
        if self.max_pending < 1:
            raise ValueError(f"max_pending is {self.max_pending}: expected at least 1.")
        if self.poll_seconds <= 0:
            raise ValueError(f"poll_seconds is {self.poll_seconds}: expected more than 0.")

    def _check_delivery(self) -> None:
        if self.concurrency > 1 and (self.delivery != "at_least_once" or self.handle != "message"):
            raise ValueError(
                f"Processor {self.name!r}: handlers that run at once finish in any order, so their "
                "effects cannot share one transaction with the checkpoint. Take concurrency=1, or "
                "handle='message' with delivery='at_least_once'."
            )
        if self.inbox and self.delivery != "at_least_once":
            raise ValueError(
                f"Processor {self.name!r}: an inbox is for delivery='at_least_once'; exactly once "
                "needs none."
            )

    @property
    def key(self) -> CheckpointKey:
        return CheckpointKey(self.name, self.version)

    @property
    def selection(self) -> Selection:
        return Selection(self.topics, self.types)


@dataclass(frozen=True, slots=True)
class Definition:
    """A processor's options and its handler."""

    options: ProcessorOptions
    handler: Handler

    @property
    def is_async(self) -> bool:
        return is_async(self.handler)
