"""Processes that are killed, with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(words: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """`python -m` these words, in a session of its own, so that its Java can be killed with it. It
    may wait for its standard input."""
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=os.environ | variables,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


@contextmanager
def killed_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes], *, is_alone: bool = False) -> None:
    """Alone: its Java notices a moment later, and its tasks may still write."""
    if is_alone:
        process.kill()
    else:
        with suppress(ProcessLookupError):  # where all of it has ended
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
