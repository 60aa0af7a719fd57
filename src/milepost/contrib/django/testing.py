"""For the tests of a Django project.

`TestCase` never commits, so that no processor or worker sees what a test writes: look at it with
`appended()`, and at tasks with `get_result()`. To run processors and workers, use
`MilepostTestCase`.
"""

from __future__ import annotations

import orjson
from django.db import connections
from django.test import TransactionTestCase

from milepost import sql
from milepost.contrib.django.settings import milepost_settings
from milepost.records import Message


class MilepostTestCase(TransactionTestCase):
    """A TransactionTestCase that starts with an empty log and an empty queue. Django empties only
    the tables of models."""

    def setUp(self) -> None:
        """Begins with an empty log and queue."""
        super().setUp()
        empty()


def empty(using: str | None = None) -> None:
    """Remove all messages, jobs, checkpoints, dead letters and so on; policies and schedules stay.
    Nothing may run meanwhile."""
    own = milepost_settings()
    with connections[using or own.using].cursor() as cursor:
        cursor.execute(sql.query("testing_empty", own.schema).decode())


def appended(using: str | None = None) -> list[Message]:
    """All messages that the connection sees, in order: those of its open transaction, too."""
    own = milepost_settings()
    with connections[using or own.using].cursor() as cursor:
        cursor.execute(sql.query("django_appended", own.schema).decode())
        rows = cursor.fetchall()
    return [
        Message(
            type_, orjson.loads(data), key=key, topic=topic, metadata=orjson.loads(meta), id=id_
        )
        for type_, data, key, topic, meta, id_ in rows
    ]
