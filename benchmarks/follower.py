"""A real reader in a process of its own, following the log from its end while others append."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from milepost import Message, Milepost

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY = "ready"
_LAST = "BenchmarkEnded"


@contextmanager
def following(url: str) -> Iterator[None]:
    """Ends when the reader has read everything, outside of what the caller has timed."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.follower"],
        env=os.environ | {"MILEPOST_URL": url},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            _expect(process, _READY)
            yield
            mp = Milepost(url)
            with mp.connect() as conn:
                mp.append(conn, Message(_LAST, {}))
            _expect(process, _LAST)
        finally:
            process.kill()


def _expect(process: subprocess.Popen[str], line: str) -> None:
    said = process.stdout.readline().strip() if process.stdout else ""
    if said != line:
        raise RuntimeError(f"the following reader said {said!r} instead of {line!r}")


def _follow() -> None:
    with Milepost().reader("end") as reader:
        reader.listen()
        print(_READY, flush=True)
        for message in reader.follow():
            if message.type == _LAST:
                break
    print(_LAST, flush=True)


if __name__ == "__main__":
    _follow()
