"""Write many files at the same time. They are committed in order, each after all before it."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from milepost.pipeline.spark.connect import cores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
    """One or more files for each range. The ranges follow one another, from the end of the archive
    on, and are below the horizon."""
    jobs = (partial(files.of_range, range_, epoch) for range_ in ranges)
    write_in_order(jobs, commit, parallel or cores_of(files.spark))


def write_in_order(
    jobs: Iterable[Callable[[], Sequence[ArchivedFile]]],
    commit: Callable[[ArchivedFile], None],
    parallel: int,
) -> None:
    """Each job gives one or more durable files; `parallel` of them run at a time. `commit` is given
    the files in the order of the jobs. If it raises, or a job fails, no later file is committed:
    what was written is an orphan. Raises after all jobs have ended."""
    waiting: deque[Future[Sequence[ArchivedFile]]] = deque()

    def commit_next() -> None:
        for file in waiting.popleft().result():
            commit(file)

    with ThreadPoolExecutor(parallel, "milepost-archive") as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(job))
                if len(waiting) > parallel:
                    commit_next()
            while waiting:
                commit_next()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
