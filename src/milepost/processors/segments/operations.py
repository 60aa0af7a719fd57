"""What operators do with segments: split, merge, balance, release, reset.

An operator is a claimant, who asks for segments, and claims them once their owners have flushed and
released them (or have died, and their claims expired). The epochs of these claims fence what the
operator does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg.errors import LockNotAvailable

from milepost import db
from milepost.errors import NoPartner, SegmentsBusy, UnknownSegment
from milepost.owner import owner_name
from milepost.processors.admin import is_recovered
from milepost.processors.definition import MAX_SEGMENTS as MAX_SEGMENTS
from milepost.processors.segments.split_merge import halves, narrowest_pair, partner, widest
from milepost.records import Position, Segment

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection

COUNT_UP_TO = 100_000
Connect: TypeAlias = "Callable[[], AbstractContextManager[Connection]]"
CLAIM_SECONDS = 10.0  # where no instance runs that would say how long its claims last
LOOK_SECONDS = 0.1
TIMEOUT_SECONDS = 60.0
log = logging.getLogger("milepost.processors")


@dataclass(frozen=True, slots=True)
class SegmentStatus:
    """`owner` is who has it claimed now, `wanted_by` the operator who asks for it."""

    id: int
    mask: int
    epoch: int
    owner: str | None
    wanted_by: str | None
    transaction_id: int
    position: int
    updated_at: datetime
    last_error: str | None
    last_error_at: datetime | None
    lag_messages: int
    lag_seconds: float
    claimed_until: datetime | None = None
    is_lag_exact: bool = True  # False: more messages wait than were counted
    kept_by: int | None = None  # the pid of a frozen owner's session, which nobody could end

    @property
    def is_recovered(self) -> bool | None:
        """From its last error. None if there was none."""
        return is_recovered(
            "", self.lag_messages, failed_at=self.last_error_at, moved_at=self.updated_at
        )

    @property
    def segment(self) -> Segment:
        return Segment(self.id, self.mask)

    @property
    def checkpoint(self) -> Position:
        return Position(self.transaction_id, self.position)


def list_segments(
    conn: Connection, schema: str, key: CheckpointKey, count_up_to: int = COUNT_UP_TO
) -> list[SegmentStatus]:
    """By id; none for a processor without segments."""
    limits = {"count_up_to": count_up_to, "claim_seconds": CLAIM_SECONDS}
    return db.fetch_records(
        conn, schema, "segments_list", SegmentStatus, **key.parameters(), **limits
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A segment that an operator asks for. Once it is claimed, the epoch is the operator's."""

    segment: Segment
    epoch: int
    is_claimed: bool
    owner: str | None


@dataclass(frozen=True, slots=True)
class Operator:
    """Somebody who claims certain segments; all, if `ids` is None."""

    name: str
    key: CheckpointKey
    ids: Sequence[int] | None
    schema: str
    claim_seconds: float = CLAIM_SECONDS

    def want(self, conn: Connection) -> list[Wanted]:
        """A beat: extends the claims, claims what is free. None if another operator wants one."""
        ids = None if self.ids is None else list(self.ids)
        rows = self._rows(conn, "segments_want", ids=ids, claim_seconds=self.claim_seconds)
        return [
            Wanted(Segment(id_, mask), epoch, is_claimed, owner)
            for id_, mask, epoch, is_claimed, owner in rows
        ]

    def leave(self, conn: Connection) -> None:
        """Free what is still claimed. Not waited for where a transaction holds it."""
        with suppress(LockNotAvailable):
            self._rows(conn, "segments_leave")

    def split(self, conn: Connection, held: Wanted) -> int | None:
        """The id of the new half; None if the claim was lost."""
        return self._first(conn, "segments_split", segment=held.segment.id, epoch=held.epoch)

    def merge(self, conn: Connection, held: Wanted, other: Wanted) -> int | None:
        """The id of the merged one; None if a claim was lost."""
        return self._first(
            conn,
            "segments_merge",
            segment=held.segment.id,
            epoch=held.epoch,
            partner=other.segment.id,
            partner_epoch=other.epoch,
        )

    def _first(self, conn: Connection, query: str, **parameters: object) -> int | None:
        found: int | None = self._rows(conn, query, **parameters)[0][0]
        return found

    def _rows(self, conn: Connection, query: str, **parameters: object) -> list[Any]:
        of = self.key.parameters() | {"owner": self.name}
        return db.fetch_all(conn, self.schema, query, **of, **parameters)


@contextmanager
def claimed(
    connect: Connect,
    schema: str,
    key: CheckpointKey,
    ids: Sequence[int] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Iterator[tuple[Operator, list[Wanted]]]:
    """These segments (all, if none are named), claimed and kept by a thread with a connection of
    its own. The block frees them, perhaps in a transaction that ends later. If it fails, they are
    freed here."""
    with connect() as conn:
        seconds = _claim_seconds(conn, schema, key)
        operator = Operator(f"operator {owner_name()}", key, ids, schema, seconds)
        try:
            held = _wait(operator, conn, timeout)
            with _kept(operator, conn):
                yield operator, held
        except BaseException:
            if not conn.closed:
                operator.leave(conn)
            raise


def split(
    connect: Connect,
    schema: str,
    key: CheckpointKey,
    segment: int | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> tuple[Segment, Segment]:
    """Cut a segment in two, the widest if none is named; both halves."""
    chosen = _chosen(_segments(connect, schema, key), key, segment)
    with (
        claimed(connect, schema, key, [chosen.id], timeout) as (operator, (held,)),
        connect() as conn,
    ):
        if operator.split(conn, held) is None:
            raise SegmentsBusy(key.processor, [chosen.id], timeout, "the claim was lost")
        operator.leave(conn)
        return halves(held.segment)


def split_to(
    connect: Connect,
    schema: str,
    key: CheckpointKey,
    number: int,
    timeout: float = TIMEOUT_SECONDS,
) -> int:
    """Cut the widest segments until there are so many, in one transaction; how many were cut."""
    found = _segments(connect, schema, key)
    _chosen(found, key, None)  # refuses a processor without segments
    if len(found) >= number:
        return 0
    with (
        claimed(connect, schema, key, None, timeout) as (operator, held),
        connect() as conn,
        conn.transaction(),
    ):
        while (missing := number - len(held)) > 0:
            widest_mask = min(each.segment.mask for each in held)
            for each in [each for each in held if each.segment.mask == widest_mask][:missing]:
                if operator.split(conn, each) is None:
                    raise SegmentsBusy(
                        key.processor, [each.segment.id], timeout, "a claim was lost"
                    )
            held = operator.want(conn)  # the halves
        operator.leave(conn)
    return number - len(found)


def merge(
    connect: Connect,
    schema: str,
    key: CheckpointKey,
    segment: int | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> int:
    """Make one of a segment and its other half, of the narrowest if none is named; its id."""
    pair = _pair(_segments(connect, schema, key), key, segment)
    ids = [each.id for each in pair]
    with (
        claimed(connect, schema, key, ids, timeout) as (operator, (held, other)),
        connect() as conn,
    ):
        merged = operator.merge(conn, held, other)
        if merged is None:
            raise SegmentsBusy(key.processor, ids, timeout, "a claim was lost")
        operator.leave(conn)
        return merged


def balance(
    connect: Connect, schema: str, key: CheckpointKey, timeout: float = TIMEOUT_SECONDS
) -> tuple[Segment, Segment] | None:
    """Split the segment that lags the most; None if none does."""
    with connect() as conn:
        found = list_segments(conn, schema, key)
    behind = max(found, key=lambda status: status.lag_messages, default=None)
    if behind is None or not behind.lag_messages:
        return None
    return split(connect, schema, key, behind.id, timeout)


def release(
    connect: Connect,
    schema: str,
    key: CheckpointKey,
    segment: int,
    timeout: float = TIMEOUT_SECONDS,
) -> None:
    """Have a segment flushed and released by its owner, so that any instance may claim it next: the
    same one too, where it has less than its share."""
    chosen = _chosen(_segments(connect, schema, key), key, segment)
    with (
        claimed(connect, schema, key, [chosen.id], timeout) as (operator, _),
        connect() as conn,
    ):
        operator.leave(conn)


def _segments(connect: Connect, schema: str, key: CheckpointKey) -> list[Segment]:
    with connect() as conn:
        return [status.segment for status in list_segments(conn, schema, key, count_up_to=0)]


def _chosen(segments: list[Segment], key: CheckpointKey, segment: int | None) -> Segment:
    if segment is None and segments:
        return widest(segments)
    found = next((each for each in segments if each.id == segment), None)
    if found is None:
        raise UnknownSegment(key.processor, segment or 0, [each.id for each in segments])
    return found


def _pair(
    segments: list[Segment], key: CheckpointKey, segment: int | None
) -> tuple[Segment, Segment]:
    if segment is None and (pair := narrowest_pair(segments)) is not None:
        return pair
    chosen = _chosen(segments, key, segment)
    other = partner(chosen)
    if other is None:
        raise NoPartner(key.processor, chosen.id, "it is the only one.")
    if other not in segments:
        raise NoPartner(
            key.processor, chosen.id, f"its other half {other.id} is split. Merge that one first."
        )
    return chosen, other


def _claim_seconds(conn: Connection, schema: str, key: CheckpointKey) -> float:
    """As long as the instances': if the operator dies, its segments wait for as long as those of an
    instance that dies."""
    (found,) = db.fetch_one(conn, schema, "segments_claim_seconds", **key.parameters())
    return CLAIM_SECONDS if found is None else float(found)


def _wait(operator: Operator, conn: Connection, timeout: float) -> list[Wanted]:
    deadline = time.monotonic() + timeout
    while True:
        wanted = _wanted(operator, conn)
        if wanted and all(each.is_claimed for each in wanted):
            return wanted
        if time.monotonic() >= deadline:
            raise _busy(operator, wanted, timeout)
        Event().wait(LOOK_SECONDS)


def _wanted(operator: Operator, conn: Connection) -> list[Wanted] | None:
    """None: a transaction holds the lock of a row for longer than one look waits."""
    try:
        return operator.want(conn)
    except LockNotAvailable:
        return None


def _busy(operator: Operator, wanted: list[Wanted] | None, timeout: float) -> SegmentsBusy:
    missing = [each for each in wanted or () if not each.is_claimed]
    owners = sorted({each.owner for each in missing if each.owner is not None})
    if wanted is None:
        holder = "a transaction has locked a row"
    else:
        holder = f"held by {', '.join(owners)}" if owners else "another operator wants them"
    ids = [each.segment.id for each in missing] or list(operator.ids or [])
    return SegmentsBusy(operator.key.processor, ids, timeout, holder)


@contextmanager
def _kept(operator: Operator, conn: Connection) -> Iterator[None]:
    """Extends the claims meanwhile. A beat that fails does no harm: what the operator does is
    fenced."""
    stop = Event()

    def beat() -> None:
        while not stop.wait(operator.claim_seconds / 3):
            try:
                operator.want(conn)
            except psycopg.Error as error:
                log.warning("%s: beat failed: %s", operator.name, error)

    thread = Thread(target=beat, name="operator", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
