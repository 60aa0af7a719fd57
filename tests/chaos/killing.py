"""A process that is killed at the end, with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def killed_at_the_end(
    words: Sequence[str], variables: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m` these words, in a session of its own, so that its Java can be killed with it."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=os.environ | variables,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_all(process)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # where all of it has ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
