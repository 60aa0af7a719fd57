"""The names of a message's columns in Spark, and of a pipeline's staging tables. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

# The columns of the source, in order. `id` and the two JSON columns are strings in Spark.
COLUMNS: Mapping[str, str] = {
    "transaction_id": "bigint",
    "position": "bigint",
    "id": "string",
    "topic": "string",
    "key": "string",
    "type": "string",
    "data": "string",
    "metadata": "string",
    "recorded_at": "timestamp",
}

_TURN_SUFFIXES = ("", "_b")
TURNS = len(_TURN_SUFFIXES)


def staging_name(pipeline: str, version: int, turn: int = 0) -> str:
    """Readable, and never longer than PostgreSQL's 63 bytes. There is a table for each turn: one is
    merged while rows are copied into the other."""
    readable = re.sub(r"[^a-z0-9]+", "_", pipeline.lower())[:32]
    digest = hashlib.sha256(pipeline.encode()).hexdigest()[:8]
    return f"staging_{readable}_{digest}_v{version}{_TURN_SUFFIXES[turn]}"
