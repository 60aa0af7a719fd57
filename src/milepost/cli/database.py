"""The log that a command works on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from milepost.app import DEFAULT_DIRECTORY, Milepost
from milepost.cli.output import say
from milepost.db import environment_url
from milepost.environment import is_embedded_wanted, refuse_embedded, unread_names


def open_log(url: str | None, schema: str) -> Milepost:
    named = environment_url(os.environ) if url is None else url
    if named is None:
        say_embedded(DEFAULT_DIRECTORY)
    return Milepost(named, schema=schema)


def say_embedded(directory: Path, tell: Callable[[str], None] = say) -> None:
    """Once per command, so that nobody mistakes the empty embedded database for their own. Not
    said if MILEPOST_EMBEDDED asks for it."""
    refuse_embedded(os.environ)
    if is_embedded_wanted(os.environ):
        return
    state = "empty" if "MILEPOST_URL" in os.environ else "not set"
    unread = unread_names(os.environ)
    also = f" ({', '.join(unread)}: set, but not read)" if unread else ""
    tell(
        f"MILEPOST_URL is {state}{also}: using the embedded PostgreSQL in {directory.resolve()}. "
        "To use a server, set MILEPOST_URL=postgresql://user@host/database"
    )
