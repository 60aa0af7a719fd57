"""One session of a pipeline without state: wait until the log has more, write it range by range.

Spark's streams are not used: each start of one takes seconds and a Python process, each batch a
quarter of a second for its logs, and an idle one polls. What they give is not needed here: the
checkpoint in PostgreSQL says where to go on, and the watcher of the process when.
"""

from __future__ import annotations

import time
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.checkpoints import Answer
from milepost.errors import CompetingPipeline
from milepost.log import start_position
from milepost.pipeline.run import orders
from milepost.pipeline.run.bad_messages.letters import retry_letters
from milepost.pipeline.run.range_loop import RangeLoop
from milepost.pipeline.run.session import ORDERS_SECONDS, PipelineSession
from milepost.pipeline.source import Planner, Range
from milepost.pipeline.spark.jvm import refuse_ended_child
from milepost.pipeline.write import CheckpointMoved
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.pipeline.run.orders import Orders
    from milepost.pipeline.write import RangeWriter
    from milepost.runtime import Until, Watch

STOP_SECONDS = 0.2  # how soon a stop is noticed


@dataclass(slots=True)
class RangeSession(PipelineSession):
    _writer: RangeWriter = field(init=False)
    _planner: Planner = field(init=False)
    _at: Position = field(init=False)  # up to here ranges are planned
    _due_at: float = field(default=0.0, init=False)  # of the next batch, by the trigger
    _asked_at: float = field(default=0.0, init=False)

    def run(self, until: Until) -> None:
        self.status.change(self._conn, "running")
        self._retry_letters(self._orders(self._conn))
        is_ending = self._options.ends(until)
        watching = nullcontext() if is_ending else self.setup.runtime.watching(ORDERS_SECONDS)
        with watching as watch:
            while not self.stop.is_set():
                if watch is not None:
                    watch.clear()  # before the look: what comes after it wakes
                self._loop().write(self._ranges(watch))
                if watch is None:
                    return
                self._rest(watch)

    def _begin(self) -> None:
        first = self._store.first(
            self._options.key,
            lambda: start_position(self._conn, self._options.start_from, self.setup.schema),
            self.status.owner,
        )
        self._at = first.position
        self._writer = self.setup.writer(self._conn, self.status.owner, self._epoch)
        planner = Planner(self.setup.source(self._options.max_messages_per_batch))
        self._planner = self._stack.enter_context(closing(planner))
        self._planner.refuse_beyond(self._at)

    def _loop(self) -> RangeLoop:
        return RangeLoop(
            setup=self.setup,
            planner=self._planner,
            writer=self._writer,
            status=self.status,
            reports=self._conn,
            before_merge=self._wait_for_orders,
            is_stopped=self.stop.is_set,
        )

    def _wait_for_orders(self) -> Orders:
        return orders.wait_for_orders(self._writer, self._options, self.stop)

    def _ranges(self, watch: Watch | None) -> Iterator[Range]:
        """Range after range to the end of the log, each planned when the one before is staged. With
        a trigger that makes batches wait, only the next one."""
        newest = self._planner.horizon() if watch is None else watch.horizon.position
        while self._at < newest and not self.stop.is_set() and self._is_due(watch):
            self._wait_for_orders()  # what is paused computes nothing, and makes no table
            count = self._options.max_messages_per_batch
            range_ = Range(self._at, self._planner.reach(self._at, newest, count))
            self._at = range_.last
            yield range_
            newest = newest if watch is None else watch.horizon.position

    def _is_due(self, watch: Watch | None) -> bool:
        if watch is None:  # it ends when it has caught up
            return True
        now = time.monotonic()
        if now < self._due_at:
            return False
        self._due_at = now + self._options.trigger_seconds
        return True

    def _rest(self, watch: Watch) -> None:
        """Until there is something to do. Notices what the operators do meanwhile."""
        while not self.stop.is_set():
            self._look_at_orders()
            self.status.tick(self._conn, dict)
            waited = self._due_at - time.monotonic()
            if waited > 0:
                self.stop.wait(min(waited, STOP_SECONDS))
            elif self._at < watch.horizon.position or watch.wait(STOP_SECONDS):
                return

    def _look_at_orders(self) -> None:
        """After a reset, or when another version was made the active one, the next session begins:
        also while there is nothing to do. And without its JVM the process is of no use."""
        if time.monotonic() - self._asked_at < ORDERS_SECONDS:
            return
        self._asked_at = time.monotonic()
        refuse_ended_child()
        found = self._wait_for_orders()
        if found.checkpoint is None or found.checkpoint < self._at:
            raise CheckpointMoved(Answer.MISSING if found.checkpoint is None else Answer.OLDER)
        if found.checkpoint > self._at:
            raise CompetingPipeline(
                self._options.name, self.status.owner, found.owner, Answer.FURTHER.name.lower()
            )
        self._retry_letters(found)

    def _retry_letters(self, asked: Orders) -> None:
        """Nothing is staged now."""
        if asked.has_retries:
            retry_letters(self._loop(), 0)
