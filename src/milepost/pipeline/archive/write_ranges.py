"""Write many files at the same time. They are committed in order, each after all before it."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from milepost.pipeline.connect import cores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from milepost.log.history import ArchivedFile
    from milepost.pipeline.archive.spark_file import SparkFiles
    from milepost.pipeline.source import Range


def archive_with_spark(
    files: SparkFiles,
    ranges: Iterable[Range],
    epoch: int,
    commit: Callable[[ArchivedFile], None],
    *,
    parallel: int | None = None,
) -> None:
    """A file for each range. The ranges follow one another, from the end of the archive on, and are
    below the horizon."""
    jobs = (partial(files.of_range, range_, epoch) for range_ in ranges)
    write_in_order(jobs, commit, parallel or cores_of(files.spark))


def write_in_order(
    jobs: Iterable[Callable[[], ArchivedFile]],
    commit: Callable[[ArchivedFile], None],
    parallel: int,
) -> None:
    """One job of Spark for each file, `parallel` of them at a time. `commit` is given durable files
    in the order of the jobs. If it raises, or a job fails, no later file is committed: what was
    written is an orphan. Raises after all jobs have ended."""
    waiting: deque[Future[ArchivedFile]] = deque()
    with ThreadPoolExecutor(parallel, "milepost-archive") as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(job))
                if len(waiting) > parallel:
                    commit(waiting.popleft().result())
            while waiting:
                commit(waiting.popleft().result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
