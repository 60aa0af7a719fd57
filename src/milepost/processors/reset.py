"""Begin again elsewhere: the one thing that may rewind a processor.

Checkpoints, reset handlers and what is noted for the replay are one transaction. All instances stop
handling first: one without segments is waited for and then fenced by a new epoch; segments are
claimed by whoever resets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost import sql
from milepost.db import translated
from milepost.handlers import refuse_broken, refuse_unfinished
from milepost.log import start_position
from milepost.processors.segmented.listing import list_segments
from milepost.processors.segmented.operator import claimed_to_be_freed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.log import Start
    from milepost.processors.definition import ResetHandler
    from milepost.processors.segmented.operator import Connect
    from milepost.records import Position


def reset(
    conn: Connection,
    connect: Connect,
    schema: str,
    key: CheckpointKey,
    to: Start,
    handlers: Sequence[ResetHandler] = (),
) -> Position:
    """Put the checkpoints anywhere and call the reset handlers, in the caller's transaction if
    there is one. `connect` is for what must not wait for that transaction: to keep claims."""
    if not list_segments(conn, schema, key, count_up_to=0):
        return _reset(conn, schema, key, to, handlers, None)
    with claimed_to_be_freed(connect, schema, key) as (operator, _):
        return _reset(conn, schema, key, to, handlers, operator.name)


def _reset(
    conn: Connection,
    schema: str,
    key: CheckpointKey,
    to: Start,
    handlers: Sequence[ResetHandler],
    operator: str | None,
) -> Position:
    """Handlers come last: a table that was emptied before the checkpoint is locked would keep what
    a batch in flight writes into it."""
    with conn.transaction():
        position = start_position(conn, to, schema)
        parameters = {
            "processor": key.processor,
            "version": key.version,
            "transaction_id": position.transaction_id,
            "position": position.position,
            "operator": operator,
        }
        with translated(schema):
            conn.execute(sql.query("reset_processor", schema), parameters)
        for handler in handlers:
            refuse_unfinished(handler(conn, position))
            refuse_broken(conn)
    return position
