"""How a pool thread serves a segment: begin, handle a batch, give back, drop."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from milepost.log import Batch, Horizon, Selection, read_batch
from milepost.processors.conflict import Conflict
from milepost.processors.failure import Stopping
from milepost.processors.segmented.work import Abandoned

if TYPE_CHECKING:
    from milepost.processors.definition import ProcessorOptions
    from milepost.processors.segmented.board import Board
    from milepost.processors.segmented.claims import Claims
    from milepost.processors.segmented.hands import Hands
    from milepost.processors.segmented.slot import Slot
    from milepost.processors.segmented.tally import Tally

log = logging.getLogger("milepost.processors")


@dataclass(frozen=True, slots=True)
class Service:
    options: ProcessorOptions
    board: Board
    claims: Claims
    tally: Tally

    def serve(self, slot: Slot, hands: Hands) -> None:
        """After whatever was raised, no message more is handled under this claim: those that were
        taken from the slot are not done, and the next ones must not overtake them."""
        try:
            self._serve(slot, hands)
        except Stopping:
            slot.is_leaving = True
        except Conflict as conflict:
            slot.is_lost = True
            self._say(slot, f"lost: the store answered {conflict}")
        except Abandoned as abandoned:
            slot.is_lost = True
            self._note(slot, hands, f"abandoned: {abandoned}")
        except BaseException as error:
            slot.is_lost = True
            # Before the slot is put back: else the feed could find that all is handled, and end.
            self.board.fail(error)
            self._note(slot, hands, f"{type(error).__name__}: {error}")
            raise
        finally:
            self.board.put_back(slot)

    def _serve(self, slot: Slot, hands: Hands) -> None:
        if slot.is_lost:
            self._drop(slot, hands)
        elif not slot.is_begun:
            self._begin(slot, hands)
        elif slot.is_leaving:
            self._give_back(slot, hands)
        else:
            self._handle(slot, hands)

    def _begin(self, slot: Slot, hands: Hands) -> None:
        if slot.is_leaving:
            slot.is_lost = True
            return
        try:
            slot.work.claimed(hands)
        except Exception as error:
            if hands.is_lost():
                raise
            raise Abandoned(f"claiming it failed: {type(error).__name__}: {error}") from error
        slot.is_begun = True
        slot.work.retry(hands)
        self._say(slot, f"claimed at {slot.claim.position}")

    def _handle(self, slot: Slot, hands: Hands) -> None:
        batch = self.board.next_batch(slot)
        if not batch.messages and not slot.is_attached:
            batch = self._read(slot, hands)
        now = time.monotonic()
        if batch.messages or slot.is_advance_due(now):
            slot.work.deliver(batch, hands)
            slot.passed, slot.advanced_at, slot.is_flushing = batch.reached, now, False
            self.tally.add(len(batch.messages))
        slot.work.tend(hands)
        slot.work.retry(hands)

    def _read(self, slot: Slot, hands: Hands) -> Batch:
        """Catch up with the feed: its own messages only, up to where the feed is now."""
        options, feed = self.options, self.board.position
        selection = Selection(options.topics, options.types, slot.claim.segment)
        batch = read_batch(
            hands.conn, slot.reached, Horizon(feed or slot.reached, is_held=False), selection,
            options.batch_size, self.claims.schema,
        )  # fmt: skip
        slot.reached = batch.reached
        return batch

    def _give_back(self, slot: Slot, hands: Hands) -> None:
        """A participant that fails must not keep the segment from the others."""
        try:
            slot.work.released(hands)
        except Exception as error:
            if hands.is_lost():
                raise
            self._note(slot, hands, f"releasing it failed: {type(error).__name__}: {error}")
        self.claims.release(hands.conn, slot.id, slot.claim.epoch)
        self.board.remove(slot)
        self._say(slot, "released")

    def _drop(self, slot: Slot, hands: Hands) -> None:
        """Given back too, if it is still ours. On the board until then: this instance must not
        claim it anew before it has ended here."""
        try:
            slot.work.lost(hands)
            self.claims.release(hands.conn, slot.id, slot.claim.epoch)
        finally:
            self.board.remove(slot)

    def _say(self, slot: Slot, what: str) -> None:
        log.info(
            "processor=%s segment=%s epoch=%s %s",
            self.options.name, slot.id, slot.claim.epoch, what,
        )  # fmt: skip

    def _note(self, slot: Slot, hands: Hands, what: str) -> None:
        log.warning(
            "processor=%s segment=%s epoch=%s %s",
            self.options.name, slot.id, slot.claim.epoch, what,
        )  # fmt: skip
        if not hands.is_lost():
            try:
                self.claims.note_error(hands.conn, slot.id, what)
            except psycopg.Error as error:
                log.warning("processor=%s error not noted: %s", self.options.name, error)
