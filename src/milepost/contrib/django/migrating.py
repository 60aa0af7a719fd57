"""`manage.py migrate` brings Milepost's schema.

The migration of this app makes it. Later versions of Milepost have more to do, and functions change
without a migration. So what is there is brought to the version of the code before each `migrate`,
and no release needs another Django migration.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

from milepost import db
from milepost.app import Milepost
from milepost.contrib.django.settings import database_url, milepost_settings


def make(_apps: Any, schema_editor: Any) -> None:
    """Make Milepost's schema, on connections of its own: each step is a transaction that waits for
    other users of the tables, and gives up soon to let them continue."""
    using = schema_editor.connection.alias
    if is_ours(using):
        Milepost(database_url(using), schema=milepost_settings().schema).migrate()


def keep(_apps: Any, _schema_editor: Any) -> None:
    """Keep Milepost's schema: the log and the queue may be in use, and nothing could restore
    them. To remove them, drop the schema yourself."""


def upgrade(using: str) -> None:
    """What is not there yet is left to the migration."""
    if not is_ours(using):
        return
    url, schema = database_url(using), milepost_settings().schema
    with db.connect(url) as conn:
        is_there = db.applied_number(conn, schema) is not None
    if is_there:
        Milepost(url, schema=schema).migrate()


def is_ours(using: str) -> bool:
    return using == milepost_settings().using and connections[using].vendor == "postgresql"
