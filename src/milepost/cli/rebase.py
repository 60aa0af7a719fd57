"""`milepost rebase`: make a log that was restored from elsewhere safe to use here."""

from __future__ import annotations

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.output import print_json, say


def command(
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Make a log that was restored from another cluster this one's own. Safe to repeat."""
    mp = open_log(url, schema)
    done = mp.rebase(
        # Not before it is known to be possible.
        on_begin=lambda: say(
            f"rebasing the log in schema {schema!r}: what is appended from now on will sort after "
            "every message there is; appenders wait meanwhile; positions and checkpoints keep "
            "their values"
        )
    )
    if as_json:
        print_json({"schema": schema, "done": done})
    else:
        typer.echo(f"done: {done}")
