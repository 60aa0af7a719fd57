"""Functions in SQL without one of their guards: who looks for what the guard prevents must find it
then."""

from __future__ import annotations

from importlib.resources import files

from milepost import sql
from milepost.db import Connection


def replace_in(conn: Connection, function: str, text: str, instead: str) -> None:
    """In the database of this connection."""
    source = (files(sql) / "functions" / f"{function}.sql").read_text("utf-8")
    if text not in source:
        raise ValueError(f"{function} has no {text!r} to take out.")
    conn.execute(sql.render(source.replace(text, instead), sql.DEFAULT_SCHEMA).encode())
