"""The log that a command works on."""

from __future__ import annotations

import os

from psycopg.conninfo import conninfo_to_dict

from milepost import db
from milepost.app import Milepost, environment_url
from milepost.errors import InvalidUrl


def open_log(url: str | None, schema: str) -> Milepost:
    given = environment_url(os.environ) if url is None else url
    if given:
        refuse_ambiguous(given)
    return Milepost(given, schema=schema)


def refuse_ambiguous(url: str) -> None:
    """A password with a bare @ or / in it is cut there by libpq, which takes the rest for a
    host, a port or a database, and would show it in its error."""
    parts = {name: str(value) for name, value in conninfo_to_dict(db.conninfo(url)).items()}
    ports = parts.get("port", "").split(",")
    misplaced = parts.get("dbname", "") + parts.get("host", "")[1:]  # @name: an abstract socket
    if ("://" in url and "@" in misplaced) or any(port and not port.isdigit() for port in ports):
        raise InvalidUrl
