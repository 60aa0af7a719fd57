"""Begin again elsewhere: the one thing that may rewind a processor.

Checkpoints, reset handlers and what is noted for the replay are one transaction. All instances stop
handling first: one without segments is waited for and then fenced by a new epoch; segments are
claimed for the reset.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from milepost import db
from milepost.checkpoints import columns
from milepost.handlers import refuse_broken, refuse_unfinished
from milepost.log import start_position
from milepost.processors.segments.operations import claimed, list_segments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.log import Start
    from milepost.processors.definition import ResetHandler
    from milepost.processors.segments.operations import Connect
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
    with ExitStack() as stack:
        name = None
        if list_segments(conn, schema, key, count_up_to=0):
            operator, _ = stack.enter_context(claimed(connect, schema, key))
            name = operator.name
        with conn.transaction():
            position = start_position(conn, to, schema)
            parameters = key.parameters() | columns(position)
            db.run(conn, schema, "reset_processor", **parameters, operator=name)
            # Last: a table that was emptied before the checkpoint is locked would keep what a batch
            # in flight writes into it.
            for handler in handlers:
                refuse_unfinished(handler(conn, position))
                refuse_broken(conn)
        return position
