"""What operators do with the manifest: list its files, or begin a new one after a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost import db
from milepost.log.history import archived_file

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.log.history import ArchivedFile


def list_files(conn: Connection, schema: str) -> list[ArchivedFile]:
    """In the order of their messages."""
    return [archived_file(row) for row in db.fetch_all(conn, schema, "archive_list")]


def forget_files(conn: Connection, schema: str) -> int:
    """After a gap: messages that follow the last file were removed without being archived. No
    reader gets past the gap, and no file can be added. Forget the files, which stay where they are;
    how many there were, 0 if there is no gap."""
    with db.owning(conn, schema):
        return int(db.fetch_one(conn, schema, "archive_forget")[0])
