from __future__ import annotations

from milepost.runtime import Repeats
from milepost.runtime.status import FIRST_REPEATS, MOST_TEXTS, REPEAT_SECONDS


def test_the_first_few_are_logged_and_then_a_count_now_and_then() -> None:
    now = [0.0]
    repeats = Repeats(clock=lambda: now[0])
    first = [repeats.note("no table") for _ in range(548)]
    assert first[:FIRST_REPEATS] == [""] * FIRST_REPEATS
    assert set(first[FIRST_REPEATS:]) == {None}
    now[0] = REPEAT_SECONDS
    later = [repeats.note("no table") for _ in range(9)]
    assert later == [f" ({548 - FIRST_REPEATS} more of the same since the last line)", *[None] * 8]
    assert repeats.note("another") == ""
    now[0] = 3 * REPEAT_SECONDS
    assert repeats.note("no table") == " (8 more of the same since the last line)"


def test_it_forgets_the_texts_that_were_not_repeated_for_the_longest_time() -> None:
    repeats = Repeats(clock=lambda: 0.0)
    for number in range(2 * MOST_TEXTS):
        assert repeats.note(str(number)) == ""
    assert len(repeats._seen) == MOST_TEXTS
