"""Find the messages that make a range fail, and write the rest.

The range is halved until a part that fails has one message. Parts are written in order, each as a
range of its own under the checkpoint's fence, so that what was written stays written, whatever
happens next. A message is bad only if it fails by itself, twice, and if nothing fails without it:
the empty range before it can be staged. The search is pure: what it does is passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from milepost.pipeline.source import Range

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.records import Position

TRIES = 2  # of a message by itself


class Work(Protocol):
    """What the search asks and does."""

    def write(self, range_: Range) -> None:
        """Stage and merge it, or raise."""

    def is_of_data(self, error: Exception) -> bool:
        """Whether a message may be to blame. Any other error ends the search."""

    def halves(self, range_: Range) -> list[Range]:
        """Two parts of it, or only itself if it has one message, which is its last position."""

    def stage_nothing(self, at: Position) -> None:
        """Stage the empty range there, or raise: then no message is to blame."""

    def give_up(self, range_: Range, error: Exception) -> None:
        """Set its message aside, or raise."""


def write_around(failed: Range, error: Exception, work: Work, *, has_failed: bool = True) -> None:
    """Write everything of a range that fails, except for its bad messages. `has_failed`: whether it
    was tried, or is only expected to fail."""
    first, *others = work.halves(failed)
    if not others:
        _judge(failed, error, work, TRIES - has_failed)
        return
    (rest,) = others
    if _write(first, work):
        # So the cause is in the rest, which need not be tried as a whole.
        write_around(rest, error, work, has_failed=False)
    else:
        _write(rest, work)


def _write(range_: Range, work: Work) -> bool:
    """Whether it was written as a whole."""
    if (error := _failure(range_, work)) is None:
        return True
    write_around(range_, error, work)
    return False


def _judge(single: Range, error: Exception, work: Work, tries: int) -> None:
    for _ in range(tries):
        if (found := _failure(single, work)) is None:
            return  # it fails only together with others, or not always
        error = found
    work.stage_nothing(single.after)
    work.give_up(single, error)


def _failure(range_: Range, work: Work) -> Exception | None:
    try:
        work.write(range_)
    except Exception as error:
        if not work.is_of_data(error):
            raise
        return error
    return None


def halves(
    range_: Range, about: int, reach: Callable[[Position, Position, int], Position]
) -> list[Range]:
    """`about`: how many messages it has, or more. `reach`: the end of at most so many of a range,
    or the end of the range if it has fewer. The first part has a power of two of them, so that the
    parts of the first part are real halves, even if `about` is far too large."""
    count = 1 << about.bit_length()
    while (middle := reach(range_.after, range_.last, count)) >= range_.last:
        if count == 1:
            return [range_]
        count //= 2
    return [Range(range_.after, middle), Range(middle, range_.last)]
