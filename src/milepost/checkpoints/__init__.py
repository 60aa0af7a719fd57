"""Checkpoints: the progress of every consumer. A store names the position that it expects."""

from milepost.checkpoints.checkpoint_committer import CheckpointCommitter
from milepost.checkpoints.committer import Committer, Gap
from milepost.checkpoints.memory import MemoryCheckpointStore
from milepost.checkpoints.postgres import (
    Advance,
    PostgresCheckpointStore,
    advance_all,
    store_statement,
)
from milepost.checkpoints.store import Answer, Checkpoint, CheckpointKey, CheckpointStore, columns

__all__ = [
    "Advance",
    "Answer",
    "Checkpoint",
    "CheckpointCommitter",
    "CheckpointKey",
    "CheckpointStore",
    "Committer",
    "Gap",
    "MemoryCheckpointStore",
    "PostgresCheckpointStore",
    "advance_all",
    "columns",
    "store_statement",
]
