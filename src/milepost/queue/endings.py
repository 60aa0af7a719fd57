"""Tell the queue how attempts ended: one statement for all that ended the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, assert_never

from milepost.queue import take
from milepost.queue.outcome import Ending, Kind
from milepost.records import Verdict

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection, Statement


def tell(
    conn: Connection, endings: Sequence[Ending], schema: str
) -> Iterator[tuple[Ending, Verdict]]:
    """The verdict for each, in any order."""
    for kind in Kind:
        if same := [ending for ending in endings if ending.kind is kind]:
            verdicts = take.run(conn, statement(kind, same, schema), schema)
            yield from zip(same, verdicts, strict=True)


async def tell_async(conn: AsyncConnection, ending: Ending, schema: str) -> Verdict:
    (verdict,) = await take.run_async(conn, statement(ending.kind, [ending], schema), schema)
    return verdict


def statement(kind: Kind, endings: Sequence[Ending], schema: str) -> Statement:
    jobs = [ending.job for ending in endings]
    match kind:
        case Kind.COMPLETE:
            return take.completion(jobs, [ending.result for ending in endings], schema)
        case Kind.DEFER:
            untils = [ending.until for ending in endings]
            return take.deferral(jobs, untils, [ending.state for ending in endings], schema)
        case Kind.FAIL:
            delays = [ending.delay for ending in endings]
            errors = [ending.error for ending in endings]
            return take.failure(jobs, delays, errors, [e.is_final for e in endings], schema)
        case Kind.CANCEL:
            return take.cancellation(jobs, [ending.error for ending in endings], schema)
        case Kind.GIVE_BACK:
            return take.giving_back(jobs, schema)
    assert_never(kind)
