"""What the operators want of a pipeline, and where its checkpoint is, as of one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.checkpoints import Answer
from milepost.pipeline.run.report import of
from milepost.pipeline.write import CheckpointMoved
from milepost.records import Position
from milepost.runtime import Stopping

if TYPE_CHECKING:
    from threading import Event

    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.write import RangeWriter

HELD_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Orders:
    checkpoint: Position | None
    epoch: int | None
    owner: str | None
    is_held: bool
    spark_run: str | None
    has_retries: bool  # dead letters that are to be handled again


def ask_orders(conn: Connection, options: PipelineOptions, schema: str) -> Orders:
    row = db.fetch_one(conn, schema, "pipeline_orders", **of(options))
    transaction_id, position, *others = row
    checkpoint = None if position is None else Position(transaction_id, position)
    return Orders(checkpoint, *others)


def wait_for_orders(writer: RangeWriter, options: PipelineOptions, stop: Event) -> Orders:
    """Waits for as long as the operators, or a rebuild, want the pipeline to wait."""
    while True:
        orders = ask_orders(writer.conn, options, writer.schema)
        if orders.epoch not in (None, writer.epoch):
            raise CheckpointMoved(Answer.FENCED)  # another version was made the active one
        if not orders.is_held:
            return orders
        if stop.wait(HELD_SECONDS):
            raise Stopping
