"""The directory of the server's Unix socket: its data directory, or a private one if needed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from urllib.parse import quote

from milepost.embedded.account import Account
from milepost.errors import EmbeddedError

PORT = 5432
# Linux has room for 107 bytes, macOS for 103.
_LONGEST_BYTES = 103


def directory_for(data: Path, account: Account) -> Path:
    """A directory for the socket that only the account (and root) can enter."""
    directory = data if _fits(data) else _temporary(data, account)
    if not _fits(directory):
        raise EmbeddedError(
            f"{directory} is too long for a socket path: set TMPDIR to a shorter one"
        )
    account.make_private_directory(directory)
    return directory


def lock_file(directory: Path) -> Path:
    return directory / f".s.PGSQL.{PORT}.lock"


def url(directory: Path, database: str) -> str:
    host = quote(os.fsencode(directory), safe="")
    return f"postgresql://postgres@/{quote(database, safe='')}?host={host}&port={PORT}"


def _fits(directory: Path) -> bool:
    # libpq and the server both treat a comma as a separator between directories.
    return len(os.fsencode(directory / f".s.PGSQL.{PORT}")) <= _LONGEST_BYTES and (
        "," not in str(directory)
    )


def _temporary(data: Path, account: Account) -> Path:
    name = hashlib.sha256(os.fsencode(data) + b"\0%d" % account.uid).hexdigest()[:16]
    return Path(tempfile.gettempdir()).resolve() / f"milepost-{name}"
