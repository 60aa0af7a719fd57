"""The command line: each command parses, calls one room, prints."""

import signal
import sys

__all__ = ["main"]


def main() -> None:
    # A script starts its background processes with SIGINT ignored. Our commands must end on that
    # signal however they were started.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Imported here, so that a writer of the demo does not load what it does not need.
    from milepost.cli.app import app_for

    app_for(sys.argv[1:])(prog_name="milepost")
