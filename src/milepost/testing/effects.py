"""What something has changed in a database: rows, messages, jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.testing.snapshot import JOBS, MESSAGES, Difference, Row, Snapshot, difference_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Effects:
    """Values are as JSON has them: times and UUIDs are strings. A row that was updated is removed
    and added."""

    differences: Mapping[str, Difference]

    @property
    def tables(self) -> list[str]:
        """That were changed; "milepost.messages" and "milepost.jobs" are among them."""
        return list(self.differences)

    def added(self, table: str) -> list[Row]:
        """Rows that are new in a table, or have changed to this."""
        found = self.differences.get(table)
        return [] if found is None else list(found.extra)

    def removed(self, table: str) -> list[Row]:
        """Rows that are gone from a table, or were this before they changed."""
        found = self.differences.get(table)
        return [] if found is None else list(found.missing)

    @property
    def messages(self) -> list[Row]:
        """That were appended: type, topic, key, data, metadata."""
        return self.added(MESSAGES)

    @property
    def jobs(self) -> list[Row]:
        """That were put: channel, content, status and more."""
        return self.added(JOBS)


def effects_between(before: Snapshot, after: Snapshot) -> Effects:
    """Pure."""
    tables = dict.fromkeys([*before.rows, *after.rows])
    found = [difference_of(t, before.rows.get(t, []), after.rows.get(t, [])) for t in tables]
    return Effects({each.table: each for each in found if each is not None})


def unmatched(expected: Sequence[Row], found: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The expected rows that were not found, and the found ones that were not expected. An expected
    row names the columns that matter. Pure."""
    left, missing = list(found), []
    for row in expected:
        match = next((each for each in left if row.items() <= each.items()), None)
        if match is None:
            missing.append(row)
        else:
            left.remove(match)
    return missing, left
