"""What the overview shows and the history keeps: all gauges, by one query a second."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from milepost import db
from milepost.observe import look
from milepost.pipeline.admin import list_pipelines
from milepost.processors.admin import is_recovered, list_processors
from milepost.queue.admin import list_channels

if TYPE_CHECKING:
    from datetime import datetime

    from milepost.db import Connection
    from milepost.observe import ChannelGauges, Metrics, PipelineGauges, ProcessorGauges
    from milepost.pipeline.admin import PipelineStatus
    from milepost.processors.admin import ProcessorStatus
    from milepost.queue.admin import ChannelStatus
    from milepost.ui.observed.board import Board

PHASES = ("prepare", "wait", "stage", "merge", "sweep")  # jsonb does not keep their order
LISTED_CHANNELS = 100  # on the page of the queue


@dataclass(frozen=True, slots=True)
class LastError:
    """Of a processor or a version of a pipeline."""

    name: str
    version: int
    last_error: str
    last_error_at: datetime
    updated_at: datetime | None

    def is_over(self, status: ProcessorGauges | PipelineGauges) -> bool:
        """Whether it has worked since."""
        times = {"failed_at": self.last_error_at, "moved_at": self.updated_at}
        return is_recovered(status.state, status.lag_messages, **times) is True


def take(board: Board) -> Metrics:
    return board.look("metrics", look)


def values(found: Metrics) -> dict[str, float]:
    """The numbers that the history keeps, by series."""
    kept: dict[str, float] = {}
    for processor in found.processors:
        kept[series("processor", processor.name, "lag")] = processor.lag_messages
        kept[series("processor", processor.name, "rate")] = processor.rate
    for pipeline in found.pipelines:
        kept |= _values_of_pipeline(pipeline)
    for channel in found.queue.channels if found.queue else ():
        kept[series("channel", str(channel.name), "depth")] = depth_of(channel)
        kept[series("channel", str(channel.name), "rate")] = channel.rate
    return kept


def _values_of_pipeline(pipeline: PipelineGauges) -> dict[str, float]:
    kept: dict[str, float] = {}
    if pipeline.is_active:
        kept[series("pipeline", pipeline.name, "lag")] = pipeline.lag_messages
        kept[series("pipeline", pipeline.name, "rate")] = pipeline.rows_per_second
        for phase, ms in own_phases(pipeline).items():
            kept[phase_series(pipeline.name, phase)] = ms
    if pipeline.progress is not None and pipeline.position is not None:
        kept[position_series(pipeline.name, pipeline.version)] = pipeline.position
    return kept


def series(
    kind: Literal["processor", "pipeline", "channel"],
    name: str,
    what: Literal["lag", "rate", "depth"],
) -> str:
    """The name of a series of the history."""
    return f"{kind}/{name}/{what}"


def phase_series(name: str, phase: str) -> str:
    """How long a phase of the last batch took, in milliseconds."""
    return f"pipeline/{name}/phase/{phase}"


def position_series(name: str, version: int) -> str:
    """Up to where a rebuild has filled a version. Rounded: good enough to tell its speed."""
    return f"pipeline/{name}/position/{version}"


def own_phases(pipeline: PipelineStatus | PipelineGauges) -> dict[str, float]:
    """Of the last batch, in the order in which they happen; without Spark's own, which overlap
    with them."""
    found = pipeline.phases_ms or {}
    own = [phase for phase in found if not phase.startswith("spark.")]
    return {phase: found[phase] for phase in sorted(own, key=_turn)}


def _turn(phase: str) -> tuple[int, str]:
    return (PHASES.index(phase) if phase in PHASES else -1, phase)


def depth_of(channel: ChannelStatus | ChannelGauges) -> int:
    """What is due and not done."""
    return channel.ready + channel.overdue + channel.running


def last_errors(board: Board) -> dict[tuple[str, int], LastError]:
    """By name and version."""
    found = board.look("last errors", _read_errors)
    return {(each.name, each.version): each for each in found}


def _read_errors(conn: Connection, schema: str) -> list[LastError]:
    return db.fetch_records(conn, schema, "last_errors", LastError)


def processors(board: Board) -> list[ProcessorStatus]:
    return board.look("processors", partial(list_processors, max_counted=None))


def pipelines(board: Board) -> list[PipelineStatus]:
    return board.look("pipelines", partial(list_pipelines, max_counted=None))


def channels(board: Board) -> list[ChannelStatus]:
    """The first ones and those with limits."""
    listed = partial(list_channels, max_channels=LISTED_CHANNELS, max_counted=None)
    return board.look("channels", listed)


def channel(board: Board, name: str) -> ChannelStatus | None:
    """None: it has neither jobs nor limits."""
    found = board.look(("channel", name), partial(list_channels, name=name, max_counted=None))
    return found[0] if found else None
