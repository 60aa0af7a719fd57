"""Rewrite files by Spark, so that all have `content`. Small ones are joined."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from milepost.archive import list_files
from milepost.archive.range_archiver import tag_of
from milepost.archive.upkeep.rewrite import swap
from milepost.log.history import Location
from milepost.pipeline.archive.spark_file import SparkFiles
from milepost.pipeline.archive.write_ranges import write_in_order
from milepost.pipeline.source import complete_conninfo
from milepost.pipeline.spark.connect import cores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from milepost.db import Connection
    from milepost.log.history import ArchivedFile

TARGET_MESSAGES = 1_000_000
# Written by Spark: if it has no `content`, a VARIANT cannot hold the JSON of one of its messages.
_BY_SPARK = re.compile(r"_s[0-9a-f]{11}\.parquet$")


@dataclass(slots=True)
class SparkCompaction:
    """`joined` files have become `written` ones, of which `with_content` have that column: the
    others have JSON that a VARIANT cannot hold. `overtaken`: groups of files that somebody else
    replaced meanwhile; nothing was done to them."""

    joined: int = 0
    written: int = 0
    with_content: int = 0
    overtaken: int = 0


def compact_with_spark(
    spark: SparkSession,
    conn: Connection,
    url: str,
    schema: str,
    *,
    target_messages: int = TARGET_MESSAGES,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> SparkCompaction:
    """Rewrite the files without `content`, and join small ones, up to `target_messages` each. The
    connection is in autocommit mode: each group of files is replaced in one transaction."""
    groups = list(groups_to_rewrite(list_files(conn, schema), target_messages))
    found, left = SparkCompaction(), iter(groups)
    if not groups:
        return found
    location = Location(groups[-1][-1].location)
    conninfo = complete_conninfo(url, os.environ)
    files = SparkFiles(spark, conninfo, schema, location, tag_of(conn, schema))
    total, done = sum(file.messages for group in groups for file in group), 0

    def commit(new: ArchivedFile) -> None:
        nonlocal done
        _replace(conn, schema, next(left), new, found)
        done += new.messages
        on_progress("rewriting", done, total)

    jobs = (partial(_rewritten, files, group) for group in groups)
    write_in_order(jobs, commit, cores_of(spark))
    return found


def _rewritten(files: SparkFiles, group: list[ArchivedFile]) -> list[ArchivedFile]:
    return [files.of_files(group)]


def groups_to_rewrite(
    files: Iterable[ArchivedFile], target_messages: int
) -> Iterator[list[ArchivedFile]]:
    """Adjacent files that fit into one. One alone, if it has no `content` and may have it. Pure."""
    group: list[ArchivedFile] = []
    for file in files:
        is_wanted = not _is_tried(file) or file.messages < target_messages // 2
        size = sum(each.messages for each in group) + file.messages
        if group and not (is_wanted and size <= target_messages):
            yield from _worthwhile(group)
            group = []
        if is_wanted:
            group.append(file)
    yield from _worthwhile(group)


def _worthwhile(group: list[ArchivedFile]) -> list[list[ArchivedFile]]:
    is_one_done = len(group) == 1 and _is_tried(group[0])
    return [group] if group and not is_one_done else []


def _is_tried(file: ArchivedFile) -> bool:
    return file.has_content or _BY_SPARK.search(file.name) is not None


def _replace(
    conn: Connection,
    schema: str,
    old: list[ArchivedFile],
    new: ArchivedFile,
    found: SparkCompaction,
) -> None:
    """If one of the old files was replaced meanwhile, messages may have been erased there."""
    if swap(conn, schema, old, new):
        found.joined += len(old)
        found.written += 1
        found.with_content += new.has_content
    else:
        found.overtaken += 1
