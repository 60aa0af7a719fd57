"""Which files are joined: adjacent small ones, as many as fit."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from milepost.archive.upkeep.compact import TARGET_BYTES, groups_to_join
from milepost.log.history import ArchivedFile
from milepost.records import Position


def file(number: int, messages: int, size: int = 1, *, has_content: bool = False) -> ArchivedFile:
    return ArchivedFile(
        after=Position(0, number),
        last=Position(0, number + 1),
        location="/data",
        name=str(number),
        messages=messages,
        bytes=size,
        sha256="",
        recorded_from=None,
        recorded_to=None,
        topics=None,
        types=None,
        format_version=1,
        has_content=has_content,
        epoch=0,
    )


def joined(files: Sequence[ArchivedFile], least: int, target: int) -> list[list[int]]:
    return [[int(each.name) for each in group] for group in groups_to_join(files, least, target)]


def test_a_large_file_ends_a_group() -> None:
    files = [file(n, size) for n, size in enumerate([1, 1, 9, 1, 1, 1, 9, 1])]
    assert joined(files, 5, 100) == [[0, 1], [3, 4, 5]]


def test_a_file_with_content_ends_a_group() -> None:
    files = [file(n, 1, has_content=n == 2) for n in range(5)]
    assert joined(files, 5, 100) == [[0, 1], [3, 4]]


def test_large_messages_fill_a_file_too() -> None:
    files = [file(n, 1, TARGET_BYTES // 2) for n in range(5)]
    assert joined(files, 5, 100) == [[0, 1], [2, 3]]


@given(st.lists(st.integers(0, 12)), st.integers(1, 10), st.integers(2, 12))
def test_groups_are_adjacent_small_and_not_too_large(
    sizes: list[int], least: int, target: int
) -> None:
    files = [file(n, size) for n, size in enumerate(sizes)]
    groups = joined(files, least, target)
    for group in groups:
        assert group == list(range(group[0], group[0] + len(group)))
        assert len(group) > 1
        assert all(sizes[n] < least for n in group)
        assert sum(sizes[n] for n in group) <= target
    assert sorted(n for group in groups for n in group) == [n for group in groups for n in group]
