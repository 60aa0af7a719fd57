from __future__ import annotations

from dataclasses import dataclass

from milepost.cli.progress import Lines


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def test_lines_say_rate_and_time_left_of_what_is_done_since_the_start() -> None:
    clock, said = Clock(), list[str]()
    lines = Lines(clock, said.append)
    lines.update("filling", 1_000, 10_000)  # done by an earlier run
    clock.now += 2
    lines.update("filling", 2_000, 10_000)  # too soon for a line
    clock.now += 8
    lines.update("filling", 6_000, 10_000)
    lines.update("swapping", 10_000, 10_000)
    assert said == [
        "filling: 1,000 of 10,000 messages, -",
        "filling: 6,000 of 10,000 messages, 500/s, 8.0 s left",
        "swapping: 10,000 of 10,000 messages, 900/s, 0.0 s left",
    ]
