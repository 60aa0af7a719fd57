"""`python -m tests.documents.reading DOCUMENT`: reads it in the current directory, on MILEPOST_URL.

A process for each document: some set up what a process has only once, such as the tracer of
OpenTelemetry or the settings of Django.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tests import zygote
from tests.documents.blocks import to_run
from tests.documents.reader import Reader

LIMIT_SECONDS = 150


def main() -> None:
    os.setsid()  # so that what it has started can be ended with it
    signal.signal(signal.SIGALRM, _expire)
    signal.alarm(LIMIT_SECONDS)
    try:
        read(Path(sys.argv[1]), Path.cwd())
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os.killpg(0, signal.SIGKILL)
        raise


def read(document: Path, directory: Path) -> None:
    sys.path.insert(0, str(directory))
    with forked_zygote() as way, Reader(directory, way).reading(to_run(document)):
        pass


def _expire(number: int, frame: object) -> NoReturn:
    raise TimeoutError(f"The document has not ended after {LIMIT_SECONDS} s.")


@contextmanager
def forked_zygote() -> Iterator[int]:
    """This process has imported Milepost, and nothing of the document yet."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        zygote.serve(its)
        os._exit(0)
    its.close()
    try:
        yield ours.fileno()
    finally:
        ours.close()
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
