"""`milepost` in the shells of documents: forked by a process that has imported everything.

The way to that process is an open file, whose number is in the environment.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from tests import zygote

ZYGOTE = "MILEPOST_TEST_ZYGOTE"
STREAMS = (0, 1, 2)


def main() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = ["milepost", *sys.argv[1:]]
    with socket.socket(fileno=int(environment.pop(ZYGOTE))) as way:
        process = zygote.start_at(way, program, environment, STREAMS, Path.cwd())
    code = process.wait()
    process.close()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
