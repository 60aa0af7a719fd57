"""The committer of one checkpoint: bound to a store and an id, it goes on from what is stored."""

from __future__ import annotations

import time
from collections.abc import Callable

from milepost.checkpoints.committer import Committer
from milepost.checkpoints.store import Answer, CheckpointKey, CheckpointStore
from milepost.errors import CheckpointMoved
from milepost.owner import owner_name
from milepost.records import Position


class CheckpointCommitter(Committer):
    """Advances the checkpoint of a consumer over completed messages, never over a gap.

    `CheckpointCommitter(store, "billing")` loads the checkpoint: `checkpoint` is where to go on,
    None at the very first start. It is stored after `batch_size` completed messages, or when
    `interval` seconds have passed with something to store; 0 turns either off, both 0 store at
    every advance. At most `max_pending` messages are admitted above the first that has not
    completed.

    Each store names the position where this committer left the checkpoint. If somebody else moved
    it, CheckpointMoved is raised, by this call and by all later ones, and nothing is stored.
    """

    def __init__(
        self,
        store: CheckpointStore,
        id_: str | CheckpointKey,
        /,
        batch_size: int = 100,
        interval: float = 5.0,
        max_pending: int = 10_000,
        *,
        owner: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key = _key(id_)
        self._checkpoints = _checked(store)
        self._owner = owner_name() if owner is None else owner
        found = store.load(self._key)
        self._epoch = 0 if found is None else found.epoch
        self._expected = None if found is None else found.position
        self._in_doubt: Position | None = None  # a store raised: it may have happened
        self._moved: CheckpointMoved | None = None
        super().__init__(self._store_checkpoint, batch_size, interval, max_pending, clock)
        self._stored_position = self._expected

    def _store_checkpoint(self, new: Position) -> None:
        """Called by one thread at a time."""
        if self._moved is not None:
            raise self._moved
        self._settle_doubt()
        if self._expected is not None and new <= self._expected:
            return
        self._in_doubt = new
        answer = self._checkpoints.store(
            self._key, self._expected, new, epoch=self._epoch, owner=self._owner
        )
        self._in_doubt = None
        if answer is not Answer.STORED:
            said = answer.name.lower()
            self._moved = CheckpointMoved(self._key.processor, new, said, self._expected)
            raise self._moved
        self._expected = new

    def _settle_doubt(self) -> None:
        """After a broken connection: what is stored in this committer's name was stored by it."""
        if self._in_doubt is None:
            return
        found = self._checkpoints.load(self._key)
        if found is not None and (found.position, found.owner) == (self._in_doubt, self._owner):
            self._expected = self._in_doubt
        self._in_doubt = None


def _key(id_: object) -> CheckpointKey:
    if isinstance(id_, CheckpointKey):
        return id_
    if not isinstance(id_, str):
        raise TypeError(f"The id of a checkpoint is a str or a CheckpointKey, not {id_!r}.")
    if not 0 < len(id_) <= 255:
        raise ValueError("The id of a checkpoint takes 1 to 255 characters.")
    return CheckpointKey(id_)


def _checked(store: CheckpointStore) -> CheckpointStore:
    if not (hasattr(store, "load") and hasattr(store, "store")):
        raise TypeError(
            f"{store!r} is no checkpoint store. Pass PostgresCheckpointStore(conn), or an object "
            "with its methods."
        )
    return store
