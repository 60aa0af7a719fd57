"""What a pipeline is: its name, what it reads, where it writes, and how Spark runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, get_args

from milepost.checkpoints import CheckpointKey
from milepost.errors import InvalidOutput
from milepost.handlers import is_async, refuse_arguments
from milepost.log import Selection, Start
from milepost.pipeline.expectations import Expectations, OnViolation
from milepost.pipeline.names import REJECTED, wanted_columns
from milepost.pipeline.sinks import (
    LONGEST_NAME_BYTES,
    Files,
    Sink,
    TableName,
    TableSink,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from milepost.runtime import Until

OutputMode: TypeAlias = Literal["update", "append"]
OnFailure: TypeAlias = Literal["stop", "skip"]
Function: TypeAlias = "Callable[[DataFrame], DataFrame]"
AVAILABLE_NOW = "available_now"
EAGER = "0 seconds"  # one batch after the other, without a pause
_UNIT_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
_PART = re.compile(rf"(\d+) +({'|'.join(_UNIT_SECONDS)})s?")
_INTERVAL = re.compile(rf"(interval +)?({_PART.pattern} *)+")


class Options(TypedDict, total=False):
    """The options of `@mp.pipeline(name, sink=..., ...)`. The defaults are in PipelineOptions."""

    topics: Sequence[str] | None
    types: Sequence[str] | None
    columns: Sequence[str] | None
    version: int
    trigger: str
    max_messages_per_batch: int
    stateful: bool
    output_mode: OutputMode
    partitions: int | None
    start_from: Start
    checkpoint_dir: str | None
    on_failure: OnFailure
    expect: Mapping[str, str] | None
    on_violation: OnViolation


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """Everything about a pipeline except its function. Checked when it is made."""

    name: str
    sink: Sink
    topics: Sequence[str] | None = None
    types: Sequence[str] | None = None
    columns: Sequence[str] | None = None  # of a message, for the function; None: all
    version: int = 1
    trigger: str = EAGER
    max_messages_per_batch: int = 100_000
    stateful: bool = False
    output_mode: OutputMode = "update"
    partitions: int | None = None
    start_from: Start = "beginning"
    checkpoint_dir: str | None = None
    on_failure: OnFailure = "stop"  # what happens to a message that makes its batch fail
    expect: Mapping[str, str] | None = None  # of each row of the output: conditions by name
    on_violation: OnViolation = "fail"
    code_version: int | None = None  # the code's, if `version` is a table's; see as_built

    def __post_init__(self) -> None:
        if not isinstance(self.sink, get_args(Sink)):
            raise TypeError(
                f"sink is {self.sink!r}: expected where rows go, as in Append('revenue') or "
                "Upsert('revenue', key=['day'], add=['total'])."
            )
        if not 0 < len(self.name) <= 255:
            raise ValueError("A pipeline's name has 1 to 255 characters.")
        if self.version < 1 or self.max_messages_per_batch < 1:
            raise ValueError("version and max_messages_per_batch are at least 1.")
        if self.partitions is not None and self.partitions < 1:
            raise ValueError(f"partitions is {self.partitions}: expected at least 1, or None.")
        if self.output_mode not in ("update", "append"):
            raise ValueError(f"output_mode is {self.output_mode!r}: expected update or append.")
        seconds_of(self.trigger)  # refuses others
        Selection(self.topics, self.types)  # refuses a string
        for option, names in (("topics", self.topics), ("types", self.types)):
            if names is not None and not (names and all(names)):
                raise ValueError(f"{option} is {names!r}: expected a list of names, or None.")
        wanted_columns(self.columns)  # refuses others
        for reason in self._contradictions():
            raise ValueError(f"Pipeline {self.name!r}: {reason}")
        self._check_tables()

    def _contradictions(self) -> Iterator[str]:
        """Options that do not go together, and what to do."""
        if self.on_failure not in ("stop", "skip"):
            yield f"on_failure is {self.on_failure!r}: expected stop or skip."
        if self.on_failure == "skip" and self.keeps_state:
            what = "stateful=True" if self.stateful else "Files"
            yield (
                f"on_failure='skip' cannot be used with {what}: Spark decides what a batch is, and "
                "no message can be left out of it. Leave on_failure at 'stop', and let the "
                "function filter out what it cannot handle."
            )
        expectations = self.expectations  # refuses what cannot be expected
        if expectations is None and self.on_violation != "fail":
            yield f"on_violation is {self.on_violation!r}, but nothing is expected: pass expect."
        if expectations is not None and isinstance(self.sink, Files):
            yield (
                "expect cannot be used with Files, which Spark writes itself: rows are counted and "
                "set aside in the transaction of a sink in PostgreSQL. Filter them in the function."
            )

    def _check_tables(self) -> None:
        for name in self._tables():
            if len(name.encode()) > LONGEST_NAME_BYTES:
                raise ValueError(
                    f"The table {name!r} of pipeline {self.name!r} has a name of more than "
                    f"{LONGEST_NAME_BYTES} bytes: choose a shorter one."
                )

    def _tables(self) -> Iterator[str]:
        if self.table is None:
            return
        yield self.table.versioned(self.version)
        if self.on_violation == "set_aside":
            yield self.table.beside(REJECTED).versioned(self.version)

    def as_built(self, version: int) -> PipelineOptions:
        """For one version of the table. Its number may differ from the code's: a rebuild makes
        the next version without a change of the code."""
        return replace(self, version=version, code_version=self.code)

    @property
    def code(self) -> int:
        """The version in the code."""
        return self.version if self.code_version is None else self.code_version

    @property
    def key(self) -> CheckpointKey:
        return CheckpointKey(self.name, self.version)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns of a message that the function gets."""
        return wanted_columns(self.columns)

    @property
    def selection(self) -> Selection:
        return Selection(self.topics, self.types)

    @property
    def table(self) -> TableName | None:
        """The name of the target. None for sinks that are not a table."""
        sink = self.sink
        return TableName.parse(sink.table) if isinstance(sink, TableSink) else None

    @property
    def expectations(self) -> Expectations | None:
        return None if self.expect is None else Expectations(self.expect, self.on_violation)

    def ends(self, until: Until) -> bool:
        """Whether the run ends when it has caught up."""
        return until != "stopped" or self.trigger == AVAILABLE_NOW

    @property
    def trigger_seconds(self) -> float:
        """From the start of one batch to the start of the next, at least."""
        return seconds_of(self.trigger)

    @property
    def keeps_state(self) -> bool:
        """Whether Spark's checkpoint directory holds state that the log cannot replace."""
        return self.stateful or isinstance(self.sink, Files)


def seconds_of(trigger: str) -> float:
    """Of an interval as Spark writes it: "10 seconds", "1 minute 30 seconds"."""
    if trigger == AVAILABLE_NOW:
        return 0.0
    if _INTERVAL.fullmatch(trigger) is None:
        raise ValueError(
            f"trigger is {trigger!r}: expected an interval such as '10 seconds' or '1 minute', or "
            f"{AVAILABLE_NOW!r}."
        )
    return sum(int(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(trigger))


@dataclass(frozen=True, slots=True)
class Definition:
    """A pipeline's options and its code."""

    options: PipelineOptions
    code: Function

    def __post_init__(self) -> None:
        """Refuses what could not be called later."""
        where = f"The function of pipeline {self.options.name!r}"
        refuse_arguments(where, self.code, ("messages",))
        if is_async(self.code):
            raise TypeError(f"{where} is async def: Spark calls it. Declare it with def.")

    def function(self, messages: DataFrame) -> DataFrame:
        """What the code makes of the messages. Refuses what is no DataFrame."""
        from pyspark.sql import DataFrame  # an extra, and slow to import

        returned: object = self.code(messages)
        if isinstance(returned, DataFrame):
            return returned
        raise InvalidOutput(self.options.name, None, _not_a_frame(returned))


def _not_a_frame(returned: object) -> str:
    if returned is None:
        return "is None: its function must return a DataFrame. Does it lack a `return`?"
    kind = type(returned).__name__
    return f"is of type {kind}: its function must return a DataFrame."
