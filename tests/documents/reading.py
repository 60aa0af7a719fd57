"""`python -m tests.documents.reading DOCUMENT`: reads it in the current directory, on MILEPOST_URL.

A process for each document: some set up what a process has only once, such as the tracer of
OpenTelemetry or the settings of Django.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import zygote
from tests.documents.blocks import to_run
from tests.documents.reader import Reader


def main() -> None:
    directory = Path.cwd()
    sys.path.insert(0, str(directory))
    with forked_zygote() as way, Reader(directory, way).reading(to_run(Path(sys.argv[1]))):
        pass


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
