"""What one task reads: a range, from the table or from a file of the archive. Pure.

What is archived is read from its files, also while the rows are still in the table: that takes load
off the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milepost.pipeline.source.ranges import Range

if TYPE_CHECKING:
    from milepost.log.history import ArchivedFile
    from milepost.pipeline.source.filters import Conditions
    from milepost.records import Position


@dataclass(frozen=True, slots=True)
class Part:
    """Without a file it is read from the table."""

    range: Range
    file: ArchivedFile | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        return "" if self.file is None else self.file.name

    @property
    def is_whole(self) -> bool:
        """Whether it is all that its file has."""
        file = self.file
        return file is not None and self.range.after <= file.after and file.last <= self.range.last

    def after(self, position: Position) -> Part:
        """What is left of it after a position."""
        return replace(self, range=replace(self.range, after=position))


def cut(range_: Range, files: Iterable[ArchivedFile]) -> list[Part]:
    """The range in parts that follow one another: one for each file, which come in order, and one
    for each stretch that no file has."""
    parts, after = [], range_.after
    for file in files:
        if after < file.after:
            parts.append(Part(Range(after, file.after)))
        last = min(file.last, range_.last)
        parts.append(Part(Range(max(after, file.after), last), file))
        after = last
    if after < range_.last:
        parts.append(Part(Range(after, range_.last)))
    return parts


def may_hold(file: ArchivedFile, conditions: Conditions) -> bool:
    """Whether a file may have a message that is selected, by what the manifest says of it."""
    if not file.messages:
        return False
    for names, wanted, unwanted in _names(file, conditions):
        if names is not None and wanted is not None and wanted.isdisjoint(names):
            return False
        if names is not None and unwanted is not None and unwanted.issuperset(names):
            return False
    since, until = conditions.recorded_from, conditions.recorded_to
    if since is not None and file.recorded_to is not None and file.recorded_to < since:
        return False
    return until is None or file.recorded_from is None or file.recorded_from <= until


def holds_only(file: ArchivedFile, conditions: Conditions) -> bool:
    """Whether topics and types select all messages of a file, by what the manifest says of it."""
    return all(
        (wanted is None or (names is not None and wanted.issuperset(names)))
        for names, wanted, _ in _names(file, conditions)
    )


def _names(
    file: ArchivedFile, conditions: Conditions
) -> Iterable[tuple[Iterable[str] | None, frozenset[str] | None, frozenset[str] | None]]:
    return (
        (file.topics, conditions.topics, conditions.not_topics),
        (file.types, conditions.types, conditions.not_types),
    )
