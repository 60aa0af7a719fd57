"""What the overview shows and the history keeps: everything that works, with lag and rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from milepost.pipeline.admin import list_pipelines
from milepost.processors.admin import list_processors
from milepost.queue.admin import list_channels

if TYPE_CHECKING:
    from milepost.pipeline.admin import PipelineStatus
    from milepost.processors.admin import ProcessorStatus
    from milepost.queue.admin import ChannelStatus
    from milepost.ui.board import Board

PHASES = ("prepare", "wait", "stage", "merge", "sweep")  # jsonb does not keep their order


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Read through the board: other pages share the answers under the same keys."""

    processors: list[ProcessorStatus]
    pipelines: list[PipelineStatus]
    channels: list[ChannelStatus]

    def values(self) -> dict[str, float]:
        """The numbers that the history keeps, by series."""
        found: dict[str, float] = {}
        for processor in self.processors:
            found[series("processor", processor.name, "lag")] = processor.lag_messages
            found[series("processor", processor.name, "rate")] = processor.rate
        for pipeline in self.active_pipelines():
            found[series("pipeline", pipeline.name, "lag")] = pipeline.lag_messages
            found[series("pipeline", pipeline.name, "rate")] = pipeline.rows_per_second
            for phase, ms in own_phases(pipeline).items():
                found[phase_series(pipeline.name, phase)] = ms
        for rebuilt in self.pipelines:
            if rebuilt.built_at is None and rebuilt.position is not None:
                found[position_series(rebuilt.name, rebuilt.version)] = rebuilt.position
        for channel in self.channels:
            found[series("channel", channel.name, "depth")] = depth_of(channel)
            found[series("channel", channel.name, "rate")] = channel.rate
        return found

    def active_pipelines(self) -> list[PipelineStatus]:
        return [pipeline for pipeline in self.pipelines if pipeline.is_active]


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


def own_phases(pipeline: PipelineStatus) -> dict[str, float]:
    """Of the last batch, in the order in which they happen; without Spark's own, which overlap
    with them."""
    found = pipeline.phases_ms or {}
    own = [phase for phase in found if not phase.startswith("spark.")]
    return {phase: found[phase] for phase in sorted(own, key=_turn)}


def _turn(phase: str) -> tuple[int, str]:
    return (PHASES.index(phase) if phase in PHASES else -1, phase)


def depth_of(channel: ChannelStatus) -> int:
    """What is due and not done."""
    return channel.ready + channel.running


def processors(board: Board) -> list[ProcessorStatus]:
    return board.look(
        "processors", lambda conn, schema: list_processors(conn, schema, max_counted=None)
    )


def pipelines(board: Board) -> list[PipelineStatus]:
    return board.look(
        "pipelines", lambda conn, schema: list_pipelines(conn, schema, max_counted=None)
    )


def channels(board: Board) -> list[ChannelStatus]:
    return board.look(
        "channels", lambda conn, schema: list_channels(conn, schema, max_counted=None)
    )


def take(board: Board) -> Snapshot:
    return Snapshot(processors(board), pipelines(board), channels(board))
