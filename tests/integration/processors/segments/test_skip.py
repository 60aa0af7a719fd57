"""Skip with segments: each stands before a message of its own."""

from __future__ import annotations

import pytest

from milepost import Message, Milepost, RecordedMessage, Retry, key_hash
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import HandlerFailed, NothingToSkip, SeveralToSkip
from milepost.processors.set_aside.dead_letters import list_dead_letters
from milepost.processors.set_aside.skip import skip
from tests.integration.processors.running import Effects, leave_all

KEY = CheckpointKey("stuck")
SCHEMA = "milepost"


def test_the_message_that_a_segment_is_stuck_at_is_skipped_by_its_position(
    mp: Milepost, conn: Connection, effects: Effects
) -> None:
    @mp.processor("stuck", segments=4, retry=Retry(limit=0))
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        if any(message.data["is_bad"] for message in messages):
            raise RuntimeError("bad")

    keys = sorted((f"key-{n}" for n in range(20)), key=lambda key: key_hash(key) & 3)
    positions = mp.append(conn, *(Message("Done", {"is_bad": False}, key=key) for key in keys))
    keep.run(until="caught_up")
    (bad,) = mp.append(conn, Message("Done", {"is_bad": True}, key=keys[-1]))
    positions += mp.append(conn, *(Message("Done", {"is_bad": False}, key=key) for key in keys))
    with pytest.raises(SeveralToSkip, match=str(bad)):
        skip(conn, SCHEMA, KEY)
    with pytest.raises(HandlerFailed) as caught:
        keep.run(until="caught_up")
    assert caught.value.position == str(bad)
    with pytest.raises(NothingToSkip):
        skip(conn, SCHEMA, KEY, positions[-1])
    assert skip(conn, SCHEMA, KEY, bad).position == bad
    keep.run(until="caught_up")
    assert sorted(effects.positions()) == positions
    assert [letter.at for letter in list_dead_letters(conn, SCHEMA)] == [bad]
    with pytest.raises(NothingToSkip):
        skip(conn, SCHEMA, KEY)
