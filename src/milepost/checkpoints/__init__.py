"""Checkpoints: where every consumer stands, moved only from where it is expected to be."""

from milepost.checkpoints.committer import CheckpointCommitter, Gap
from milepost.checkpoints.memory import MemoryCheckpointStore
from milepost.checkpoints.postgres import PostgresCheckpointStore, store_statement
from milepost.checkpoints.store import Answer, Checkpoint, CheckpointKey, CheckpointStore

__all__ = [
    "Answer",
    "Checkpoint",
    "CheckpointCommitter",
    "CheckpointKey",
    "CheckpointStore",
    "Gap",
    "MemoryCheckpointStore",
    "PostgresCheckpointStore",
    "store_statement",
]
