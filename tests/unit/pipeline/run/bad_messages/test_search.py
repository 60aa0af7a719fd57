"""The search for the messages that make a range fail: everything else is written once, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.pipeline.run.bad_messages.search import halves, write_around
from milepost.pipeline.source.ranges import Range
from milepost.records import Position


class OfData(Exception):
    pass


class Lost(Exception):
    """The server."""


@dataclass
class Log:
    """Messages at these positions, and a sink with a fenced checkpoint."""

    messages: list[int]
    fails: Callable[[list[int]], Exception | None]
    end: int
    at: int = 0  # the checkpoint
    written: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    tries: int = 0
    nothing_fails_with: Exception | None = None

    def of(self, range_: Range) -> list[int]:
        return [m for m in self.messages if range_.after.position < m <= range_.last.position]

    def write(self, range_: Range) -> None:
        self.tries += 1
        found = self.of(range_)
        if (error := self.fails(found)) is not None:
            raise error
        self._advance(range_)
        self.written += found

    def is_of_data(self, error: Exception) -> bool:
        return isinstance(error, OfData)

    def reach(self, after: Position, last: Position, count: int) -> Position:
        found = self.of(Range(after, last))
        return place(found[count - 1]) if len(found) >= count else last

    def halves(self, range_: Range) -> list[Range]:
        return halves(range_, range_.width, self.reach)

    def stage_nothing(self, at: Position) -> None:
        assert at == place(self.at)
        if self.nothing_fails_with is not None:
            raise self.nothing_fails_with

    def give_up(self, range_: Range, error: Exception) -> None:
        assert isinstance(error, OfData)
        assert self.of(range_) == [range_.last.position]
        self._advance(range_)
        self.skipped.append(range_.last.position)

    def _advance(self, range_: Range) -> None:
        assert range_.after == place(self.at)  # the fence
        self.at = range_.last.position

    def search(self) -> None:
        write_around(Range(place(0), place(self.end)), OfData(), self)


def place(position: int) -> Position:
    return Position(0, position)


def fails_with(bad: set[int]) -> Callable[[list[int]], Exception | None]:
    return lambda found: OfData() if bad & set(found) else None


positions = st.lists(st.integers(1, 300), unique=True, min_size=1, max_size=80).map(sorted)


@given(positions, st.data())
def test_every_good_message_is_written_once_and_every_bad_one_found(
    messages: list[int], data: st.DataObject
) -> None:
    bad = data.draw(st.sets(st.sampled_from(messages)))
    log = Log(messages, fails_with(bad), end=data.draw(st.integers(messages[-1], 400)))

    log.search()

    assert log.written == [m for m in messages if m not in bad]
    assert log.skipped == sorted(bad)
    assert log.at == log.end


@given(positions, st.data())
def test_one_bad_message_is_found_in_as_many_steps_as_halving_takes(
    messages: list[int], data: st.DataObject
) -> None:
    bad = data.draw(st.sampled_from(messages))
    log = Log(messages, fails_with({bad}), end=messages[-1])
    log.search()
    # At each step one half, and the other beside a half that fails; the message itself once more.
    assert log.tries <= 2 * (ceil(log2(len(messages))) + 1) + 1


@given(positions, st.integers(2, 5))
def test_messages_that_fail_only_together_are_all_written(messages: list[int], most: int) -> None:
    log = Log(messages, lambda found: OfData() if len(found) > most else None, end=messages[-1])
    log.search()
    assert log.written == messages
    assert log.skipped == []


@given(positions, st.data())
def test_another_failure_skips_nothing_and_ends_the_search(
    messages: list[int], data: st.DataObject
) -> None:
    """The server is lost at any of the tries. What was written before stays written."""
    bad = data.draw(st.sets(st.sampled_from(messages), min_size=1))
    lost_at = data.draw(st.integers(1, 40))

    def fails(found: list[int]) -> Exception | None:
        return Lost() if log.tries == lost_at else fails_with(bad)(found)

    log = Log(messages, fails, end=messages[-1])
    try:
        log.search()
    except Lost:
        done = [m for m in messages if m <= log.at]
        assert sorted(log.written + log.skipped) == done
    assert set(log.skipped) <= bad


def test_a_message_that_fails_once_is_written() -> None:
    failures = iter([OfData()])
    log = Log([7], lambda _: next(failures, None), end=9)
    log.search()
    assert (log.written, log.skipped, log.at) == ([7], [], 9)


@pytest.mark.parametrize("error", [Lost(), OfData()], ids=["lost", "of-data"])
def test_no_message_is_to_blame_if_nothing_fails_too(error: Exception) -> None:
    log = Log([3, 4, 5], fails_with({4}), end=5, nothing_fails_with=error)
    with pytest.raises(type(error)):
        log.search()
    assert (log.written, log.skipped, log.at) == ([3], [], 3)
