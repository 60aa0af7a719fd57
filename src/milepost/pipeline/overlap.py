"""Range after range of the log into a sink: while one is merged, Spark stages the next ones.

A merge keeps one core of the server busy, staging all of Spark's: one after the other, each would
wait for the other, and all for Spark's planning. Merges stay in order, each under the checkpoint's
fence; what was staged for a range that is then not merged is swept out later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from milepost.pipeline.names import TURNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from milepost.pipeline.ranges import Range
    from milepost.pipeline.writer import Pending, RangeWriter, Written

Output: TypeAlias = "Callable[[Range], DataFrame]"
Merged: TypeAlias = "Callable[[Range, Written], None]"


def write_all(
    ranges: Iterable[Range],
    writer: RangeWriter,
    output: Output,
    before_merge: Callable[[], None],
    merged: Merged,
) -> None:
    """Write what `output` gives for each range. Whatever is raised, what runs is waited for."""
    staged: deque[tuple[Range, Future[Pending]]] = deque()

    def merge_first() -> None:
        range_, pending = staged.popleft()
        ready = pending.result()
        before_merge()
        merged(range_, writer.merge(range_, ready))

    with ThreadPoolExecutor(TURNS - 1, "milepost-staging") as pool:
        for turn, range_ in enumerate(ranges):
            # Prepared here: the connection is this thread's.
            stage = writer.staging_of(output(range_), range_.width, turn % TURNS)
            staged.append((range_, pool.submit(stage)))
            if len(staged) == TURNS:
                merge_first()
        while staged:
            merge_first()
