"""`milepost rebase`: make a log that was restored, copied or failed over safe to use here."""

from __future__ import annotations

from milepost.app import Milepost
from milepost.cli import options
from milepost.cli.output import print_result, say


def command(mp: Milepost, as_json: options.AsJson = False) -> None:
    """Make a log that was restored, copied or failed over usable here. Safe to repeat."""
    done = mp.rebase(
        # Called only when it is known to be possible.
        on_begin=lambda: say(
            f"rebasing the log in schema {mp.schema!r}: messages appended from now on will sort "
            "after all existing ones; appenders wait until it is done; positions and checkpoints "
            "keep their values"
        )
    )
    print_result({"schema": mp.schema, "done": done}, f"done: {done}", as_json=as_json)
