"""Checkpoints: the progress of every consumer. A store names the position that it expects."""

from milepost.checkpoints.checkpoint_committer import CheckpointCommitter
from milepost.checkpoints.committer import Committer, Gap
from milepost.checkpoints.memory import MemoryCheckpointStore
from milepost.checkpoints.postgres import PostgresCheckpointStore, store_statement
from milepost.checkpoints.store import Answer, Checkpoint, CheckpointKey, CheckpointStore, columns

__all__ = [
    "Answer",
    "Checkpoint",
    "CheckpointCommitter",
    "CheckpointKey",
    "CheckpointStore",
    "Committer",
    "Gap",
    "MemoryCheckpointStore",
    "PostgresCheckpointStore",
    "columns",
    "store_statement",
]
