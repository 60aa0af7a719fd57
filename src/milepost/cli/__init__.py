"""The command line: each command parses, calls one room, prints."""

import signal
import sys
import threading
from collections.abc import Sequence

__all__ = ["main"]


def main(words: Sequence[str] | None = None, program: str = "milepost") -> None:
    """`words`: those after the program's name; by default those of this process."""
    # Imported here, so that a writer of the demo does not load what it does not need.
    from milepost.cli.app import app_for

    given = sys.argv[1:] if words is None else list(words)
    app = app_for(given)
    # A script starts its background processes with SIGINT ignored. Our commands must end on that
    # signal however they were started. Only the main thread can have signals. Not before all is
    # imported (see milepost/interrupt.py).
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app(args=given, prog_name=program)
