"""The names of a message's columns in Spark, and of the tables that a pipeline has for itself.
Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

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
PLACE = ("transaction_id", "position")
# The JSON of a message as a VARIANT: of pipelines and of `history`, not of the source.
CONTENT = "content"

_TURN_SUFFIXES = ("", "_b")
TURNS = len(_TURN_SUFFIXES)
REJECTED = "__rejected"  # the end of the name of the table of rows that were set aside


def wanted_columns(names: Sequence[str] | None) -> tuple[str, ...]:
    """In order; None: all but `content`. Refuses others."""
    if names is None:
        return tuple(COLUMNS)
    known = (*COLUMNS, CONTENT)
    if isinstance(names, str) or not names:
        raise ValueError(f"columns is {names!r}: expected a list of some of {', '.join(known)}.")
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"columns names {', '.join(unknown)}. There are: {', '.join(known)}.")
    return tuple(name for name in known if name in names)


def stored_columns(wanted: Sequence[str]) -> tuple[str, ...]:
    """What is read for these: `content` is parsed from `data`, and its error names the position."""
    needed = {*wanted, *PLACE, "data"} if CONTENT in wanted else {*wanted}
    return tuple(name for name in COLUMNS if name in needed)


def staging_name(pipeline: str, version: int, turn: int = 0) -> str:
    """Readable, and never longer than PostgreSQL's 63 bytes. There is a table for each turn: one is
    merged while rows are copied into the other."""
    return f"staging_{_readable(pipeline)}_v{version}{_TURN_SUFFIXES[turn]}"


def rejected_name(pipeline: str) -> str:
    """Of the rows that were set aside, for a pipeline without a table of its own."""
    return f"rejected_{_readable(pipeline)}"


def _readable(pipeline: str) -> str:
    readable = re.sub(r"[^a-z0-9]+", "_", pipeline.lower())[:32]
    digest = hashlib.sha256(pipeline.encode()).hexdigest()[:8]
    return f"{readable}_{digest}"
