"""How long the segments of a killed instance stand still: from SIGKILL until another has handled a
message of each."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from benchmarks.segments_instance import TABLE, started, wait_for_done
from milepost import Message, append, db

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench

_SEGMENTS, _MESSAGES = 8, 400
_CLAIM_SECONDS = 10.0  # the default


def measure(bench: Workbench) -> list[Comparison]:
    names = (f"takeover-{n}" for n in count())
    rounds = bench.choose(3, 1)
    with bench.database() as url:
        with db.connect(url) as conn:
            conn.execute(TABLE)
        seconds = [_takeover(url, next(names)) for _ in range(rounds)]
    return [
        Comparison(
            "takeover after SIGKILL, the longest of 8 segments", "claim timeout + 1 s", "s",
            seconds, [_CLAIM_SECONDS + 1] * rounds, AtMost(1),
        )
    ]  # fmt: skip


def _takeover(url: str, name: str) -> float:
    with db.connect(url) as conn:
        conn.execute("truncate done, milepost.messages")
        with started(url, name, 2, _SEGMENTS, 2, 0.0) as instances:
            instances[0].kill()
            killed_at = time.time()
            append(conn, *(Message("Made", {}, key=f"key-{n}") for n in range(_MESSAGES)))
            return wait_for_done(conn, _MESSAGES) - killed_at


FIGURE = Figure("segments_takeover", "How long the segments of a killed instance wait", measure)
