"""The sinks ToLog and ToQueue: rows become messages or jobs, in the order of the partitions and of
their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from milepost.errors import InvalidOutput
from milepost.pipeline.sinks import ToLog, ToQueue
from milepost.pipeline.write.column_types import Column
from milepost.pipeline.write.merge import Merge

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.write.staging import Staged


@dataclass(frozen=True, slots=True)
class Item:
    """What a row becomes."""

    name: str
    columns: Mapping[str, str]  # and their types
    needed: tuple[str, ...]
    json: tuple[str, ...]  # the first one is the content


_MESSAGE = Item(
    "message",
    dict.fromkeys(("type", "data", "key", "metadata", "topic"), "text"),
    needed=("type", "data"),
    json=("data", "metadata"),
)
_JOB = Item(
    "job",
    {
        "content": "text",
        "channel": "text",
        "unique_key": "text",
        "run_at": "timestamp with time zone",
        "priority": "integer",
        "max_attempts": "integer",
    },
    needed=("content",),
    json=("content",),
)


def item_merge(pipeline: str, sink: ToLog | ToQueue, columns: Sequence[Column]) -> Merge:
    """Checks whether the columns make messages or jobs."""
    if isinstance(sink, ToLog):
        item, query, defaults = _MESSAGE, "merge_messages", {"default_topic": sink.topic}
    else:
        item, query, defaults = _JOB, "merge_jobs", {"default_channel": sink.channel}
    given = [column.name for column in columns]
    for name in item.needed:
        if name not in given:
            raise InvalidOutput(pipeline, name, f"is missing: a {item.name} needs it.")
    for column in columns:
        _check(pipeline, item, column)
    staged = [Column(name, type_) for name, type_ in item.columns.items()]
    return Merge(query, defaults, staged, partial(_explain, pipeline, item), is_ordered=True)


def _check(pipeline: str, item: Item, column: Column) -> None:
    expected = item.columns.get(column.name)
    if expected is None:
        raise InvalidOutput(
            pipeline,
            column.name,
            f"is not part of a {item.name} ({', '.join(item.columns)}). Drop it, or put it into "
            f"{item.json[0]}.",
        )
    is_json = column.name in item.json and column.conversion == "json"
    if column.type != expected and not is_json:
        raise InvalidOutput(
            pipeline, column.name, f"is {column.type}: expected {expected}. Cast it."
        )


def _explain(
    pipeline: str, item: Item, error: psycopg.Error, _conn: Connection, _staged: Staged
) -> InvalidOutput | None:
    said = error.diag.message_primary
    if isinstance(error, pg.InvalidTextRepresentation):
        others = "".join(f"or its {name} " for name in item.json[1:])
        return InvalidOutput(pipeline, item.json[0], f"{others}is not JSON in some row ({said}).")
    if isinstance(error, pg.NotNullViolation | pg.CheckViolation | pg.NumericValueOutOfRange):
        reason = f"does not make a valid {item.name}: {said}."
        return InvalidOutput(pipeline, error.diag.column_name, reason)
    return None
