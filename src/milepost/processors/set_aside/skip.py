"""Move past the message at which a processor is stuck; it is kept as a dead letter.

Without segments that is the next message. With segments each has a next message of its own, so the
operator names the message, as the error of the processor does. A message that cannot be
decoded is skipped like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from milepost import db
from milepost.checkpoints import PostgresCheckpointStore
from milepost.errors import CannotSkip, NothingToSkip, SeveralToSkip
from milepost.log import History, Horizon, Selection, horizon, read_batch
from milepost.processors.deliver.transaction import run, storing
from milepost.processors.replay.replay import load_replay
from milepost.processors.segments.claims import load_floors
from milepost.processors.segments.split_merge import above_floors
from milepost.processors.set_aside.dead_letters import put
from milepost.records import Position, RawMessage, RecordedMessage, Segment

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection

SKIPPED = "skipped by an operator"
LOOK_AHEAD = 100


def skip(
    conn: Connection, schema: str, key: CheckpointKey, at: Position | None = None
) -> RecordedMessage:
    """The message that was skipped: the next one, or the one at a position if it is the next of
    its segment. Set aside in the transaction that moves the checkpoint."""
    db.run(conn, schema, "refuse_internal", processor=key.processor)
    if _is_deferred(conn, schema, key):
        return _skip_undecodable(conn, schema, key, at)
    with conn.transaction():
        found = _next_messages(conn, schema, key)
        chosen = [each for each in found if at in (None, each[1].position)]
        if not chosen:
            raise NothingToSkip(key.processor)
        if len(chosen) > 1:
            raise SeveralToSkip(key.processor, [str(message.position) for _, message in chosen])
        ((segment, message),) = chosen
        _set_aside(conn, schema, key, message)
        PostgresCheckpointStore(conn, schema).reset(replace(key, segment=segment), message.position)
        return message


def _is_deferred(conn: Connection, schema: str, key: CheckpointKey) -> bool:
    rows = db.fetch_all(conn, schema, "processor_mode", **key.parameters())
    return bool(rows) and rows[0][0] == "deferred"


def _skip_undecodable(
    conn: Connection, schema: str, key: CheckpointKey, at: Position | None
) -> RawMessage:
    """Its checkpoint moves later, so it stays where it is; handlers are not given what was set
    aside. Only what they never see: anything else they may have handled already."""
    if at is None:
        raise CannotSkip(key.processor)
    before = Position(at.transaction_id, at.position - 1)
    batch = read_batch(conn, before, Horizon(at, is_held=False), batch_size=1, schema=schema)
    found = batch.messages[0] if batch.messages else None
    if not isinstance(found, RawMessage):
        raise CannotSkip(key.processor)
    _set_aside(conn, schema, key, found)
    return found


def _next_messages(
    conn: Connection, schema: str, key: CheckpointKey
) -> list[tuple[int, RecordedMessage]]:
    """For each checkpoint that has one; the checkpoints are locked until the transaction ends."""
    rows = db.fetch_all(conn, schema, "processor_reads", **key.parameters())
    nexts = ((row[2], _next(conn, schema, key, *row)) for row in rows)
    return [(segment, message) for segment, message in nexts if message is not None]


def _next(
    conn: Connection,
    schema: str,
    key: CheckpointKey,
    topics: list[str] | None,
    types: list[str] | None,
    id_: int,
    mask: int | None,
    *at: int,
) -> RecordedMessage | None:
    segment = None if mask is None else Segment(id_, mask)
    after = Position(*at)
    replay = load_replay(conn, schema, key, after, segment or Segment.WHOLE)
    floors = load_floors(conn, schema, key, [id_]).get(id_, [])
    limit, selection = horizon(conn, schema), Selection(topics, types, segment)
    history = History(schema)
    while True:
        batch = read_batch(conn, after, limit, selection, LOOK_AHEAD, schema, history=history)
        if messages := above_floors(batch.messages, floors):
            return replay.marked(messages[:1])[0]
        if not batch.is_full:
            return None
        after = batch.reached


def _set_aside(conn: Connection, schema: str, key: CheckpointKey, message: RecordedMessage) -> None:
    facts = {"error": SKIPPED, "traceback": "", "attempts": 0, "is_replayed": message.replaying}
    run(conn, put(schema, key, message.position, facts), schema, storing)
