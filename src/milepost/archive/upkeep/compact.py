"""Join adjacent small files: a reader opens fewer, and the manifest is shorter.

The old files stay until a sweep finds that they were replaced long enough ago.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.archive.range_archiver import tag_of
from milepost.archive.upkeep.manifest import all_files
from milepost.archive.upkeep.rewrite import rewritten, swap
from milepost.log.history import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from milepost.db import Connection
    from milepost.log.history import ArchivedFile

TARGET_MESSAGES = 1_000_000
# A file of large messages is complete with fewer of them. An erasure rewrites whole files.
TARGET_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Compaction:
    """`joined` files have become `written` ones. `overtaken`: groups of files that somebody else
    replaced meanwhile; nothing was done to them."""

    joined: int
    written: int
    messages: int
    overtaken: int


def compact(
    conn: Connection,
    schema: str,
    *,
    min_messages: int | None = None,
    target_messages: int = TARGET_MESSAGES,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Compaction:
    """Join files that have fewer than `min_messages` messages (by default half of
    `target_messages`), up to `target_messages` each. Files with the column `content` are left: in
    process it cannot be written."""
    least = target_messages // 2 if min_messages is None else min_messages
    groups = list(groups_to_join(all_files(conn, schema), least, target_messages))
    total, done = sum(file.messages for group in groups for file in group), 0
    joined = written = overtaken = 0
    with db.owning(conn, schema):
        for group in groups:
            on_progress("joining", done, total)
            if swap(conn, schema, group, _joined(conn, schema, group)):
                joined, written = joined + len(group), written + 1
                done += sum(file.messages for file in group)
            else:
                overtaken += 1
    return Compaction(joined, written, done, overtaken)


def groups_to_join(
    files: Iterable[ArchivedFile], min_messages: int, target_messages: int
) -> Iterator[list[ArchivedFile]]:
    """Adjacent small files, two or more, that fit into one."""
    group: list[ArchivedFile] = []
    for file in files:
        is_small = file.messages < min_messages and not file.has_content
        if group and not (is_small and _fits(group, file, target_messages)):
            if len(group) > 1:
                yield group
            group = []
        if is_small:
            group.append(file)
    if len(group) > 1:
        yield group


def _fits(group: list[ArchivedFile], file: ArchivedFile, target_messages: int) -> bool:
    together = [*group, file]
    return (
        sum(each.messages for each in together) <= target_messages
        and sum(each.bytes for each in together) <= TARGET_BYTES
    )


def _joined(conn: Connection, schema: str, group: list[ArchivedFile]) -> ArchivedFile:
    """In the place that the policy names now; if it names none, where the newest of them is."""
    ((address,),) = db.fetch_all(conn, schema, "archive_place") or ((group[-1].location,),)
    return rewritten(group, Location(address), tag_of(conn, schema))
