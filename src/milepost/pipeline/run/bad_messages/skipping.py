"""What happens to a range that fails because of its messages: the search for them, in Spark and in
PostgreSQL, and their dead letters."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.errors import BadMessage, describe
from milepost.handlers import storable
from milepost.log import raw_at
from milepost.pipeline.run.bad_messages.data_failures import cause_of, is_of_data
from milepost.pipeline.run.bad_messages.search import TRIES, halves
from milepost.pipeline.source import Range
from milepost.pipeline.write import Written
from milepost.runtime import Stopping
from milepost.steps import drive

if TYPE_CHECKING:
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.run.range_loop import RangeLoop
    from milepost.records import Position

log = logging.getLogger("milepost.pipelines")


@dataclass(frozen=True, slots=True)
class Described:
    """A message without its data."""

    topic: str
    type: str
    key: str | None


@dataclass(frozen=True, slots=True)
class RangeWork:
    """The work of a search, with the staging of one turn: the range after the failed one may be
    staged in the other."""

    loop: RangeLoop
    turn: int

    def write(self, range_: Range) -> None:
        if self.loop.is_stopped():
            raise Stopping
        self.loop.merge(range_, self.loop.staged(range_, self.turn))

    def is_of_data(self, error: Exception) -> bool:
        return is_of_data(error, self.loop.setup.definition.code)

    def halves(self, range_: Range) -> list[Range]:
        planner = self.loop.planner
        return halves(range_, planner.about(range_), planner.reach)

    def stage_nothing(self, at: Position) -> None:
        """Spark may know that there is nothing to compute: so a task of Python is run, too."""
        self.loop.staged(Range(at, at), self.turn)
        one = self.loop.setup.spark.range(0, 1, 1, 1)
        one.mapInArrow(lambda batches: batches, "id bigint").collect()

    def give_up(self, range_: Range, error: Exception) -> None:
        at, options = range_.last, self._options
        found = self._described(at)
        if found is None or not _is_selected(options, found):
            raise error  # the range has no message, so none is to blame
        cause = storable(cause_of(error))
        if options.on_failure == "stop":
            raise BadMessage(
                options.name, str(at), found.topic, found.type, found.key, cause
            ) from error
        facts = {
            "error": cause,
            "traceback": storable(describe(error)),
            "attempts": TRIES,
            "is_replayed": False,
        }
        self.loop.before_merge()
        self.loop.writer.set_aside(range_, at, facts)
        log.warning("pipeline=%s position=%s set aside: %s", options.name, at, cause)
        self.loop.after_merge(at, Written(0))

    def _described(self, at: Position) -> Described | None:
        conn, schema = self.loop.writer.conn, self.loop.setup.schema
        place = {"transaction_id": at.transaction_id, "position": at.position}
        if rows := db.fetch_all(conn, schema, "message_at", **place):
            return Described(*rows[0])
        with db.translated(schema, who=conn):
            raw = drive(raw_at(schema, at), lambda step: conn.execute(*step).fetchall())
        return None if raw is None else Described(raw.topic, raw.type, raw.key)

    @property
    def _options(self) -> PipelineOptions:
        return self.loop.setup.options


def _is_selected(options: PipelineOptions, found: Described) -> bool:
    in_topics = options.topics is None or found.topic in options.topics
    return in_topics and (options.types is None or found.type in options.types)
