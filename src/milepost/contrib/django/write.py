"""`append` and `put` in the transaction of a Django connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import connections
from psycopg.pq import TransactionStatus

import milepost
from milepost.contrib.django.settings import milepost_settings
from milepost.errors import OutsideAtomic

if TYPE_CHECKING:
    from milepost.records import Job, Message, Position


def append(
    *messages: Message, using: str | None = None, outside_atomic: bool = False
) -> list[Position]:
    """Append messages in the transaction of a Django connection; returns their positions.

    `using`: the alias of the database, by default that of `settings.MILEPOST`. Outside of
    `transaction.atomic()` it is refused, unless `outside_atomic`: then the messages are a
    transaction of their own.
    """
    own = milepost_settings()
    with writing(using or own.using, "append", outside_atomic=outside_atomic) as conn:
        return milepost.append(
            conn, *messages, schema=own.schema, max_payload_bytes=own.max_payload_bytes
        )


def put(*jobs: Job, using: str | None = None, outside_atomic: bool = False) -> list[int]:
    """Put jobs in the transaction of a Django connection; returns their ids. The options are those
    of `append`."""
    own = milepost_settings()
    with writing(using or own.using, "put", outside_atomic=outside_atomic) as conn:
        return milepost.put(conn, *jobs, schema=own.schema)


@contextmanager
def writing(using: str, call: str, *, outside_atomic: bool) -> Iterator[Any]:
    """Django's connection, to write with. If a statement of ours breaks the transaction, Django
    is told: it would let a caller that catches the error commit, and PostgreSQL would roll back."""
    connection = connections[using]
    if not outside_atomic and not is_in_transaction(connection):
        raise OutsideAtomic(call, using)
    connection.validate_no_broken_transaction()
    try:
        yield connection
    except Exception as error:
        if connection.in_atomic_block and _is_broken(connection.connection):
            connection.needs_rollback, connection.rollback_exc = True, error
        raise


def is_in_transaction(connection: Any) -> bool:
    """Whether somebody else will commit. The blocks in which `TestCase` runs a test do not count:
    they would hide a missing `atomic()`."""
    if not connection.in_atomic_block:
        return not connection.get_autocommit()
    blocks = connection.atomic_blocks
    return not (blocks and all(block._from_testcase for block in blocks))


def _is_broken(conn: Any) -> bool:
    return bool(conn.closed) or conn.info.transaction_status == TransactionStatus.INERROR
