"""The options of a write: strings are parsed and checked. No error shows a URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost import sql
from milepost.errors import InvalidOption, InvalidRows
from milepost.pipeline.source import DEFAULT_RETRY_SECONDS, complete_conninfo
from milepost.pipeline.source.options import count, known_options

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("url", "schema", "topic", "repeatedBatch", "retrySeconds")
# Spark's own, which it also gives to the data source.
_OF_SPARK = ("checkpointLocation", "queryName")
_LONGEST_TOPIC = 255


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write. The URL may contain a password and is not in the repr."""

    conninfo: str = field(repr=False)
    schema: str = sql.DEFAULT_SCHEMA
    topic: str | None = None  # of rows without one
    may_differ: bool = False  # whether a repeated batch may have another number of rows
    retry_seconds: int = DEFAULT_RETRY_SECONDS


def parse(given: Mapping[str, str], environ: Mapping[str, str]) -> SinkOptions:
    """The case of names does not matter, as in Spark. An unknown name is refused: a misspelt
    `topic` would be without effect."""
    own = {name: value for name, value in given.items() if not _is_of_spark(name)}
    if "path" in {name.lower() for name in own}:
        raise InvalidOption(
            "path", "is given to save() or start(), but the log has no path. Drop it."
        )
    options = known_options(own, NAMES)
    return SinkOptions(
        conninfo=complete_conninfo(options.get("url"), environ),
        schema=sql.check_schema_name(options.get("schema", sql.DEFAULT_SCHEMA)),
        topic=_topic(options.get("topic")),
        may_differ=_may_differ(options.get("repeatedBatch", "check")),
        retry_seconds=count(options, "retrySeconds", DEFAULT_RETRY_SECONDS, least=0),
    )


def refuse_overwrite(is_overwriting: bool, instead: str) -> None:
    if is_overwriting:
        raise InvalidRows(None, f"cannot replace what is in the log. Use {instead}.")


def _is_of_spark(name: str) -> bool:
    return name.lower() in map(str.lower, _OF_SPARK)


def _topic(topic: str | None) -> str | None:
    if topic is not None and not 0 < len(topic) <= _LONGEST_TOPIC:
        raise InvalidOption(
            "topic", f"has {len(topic)} characters: expected 1 to {_LONGEST_TOPIC}."
        )
    return topic


def _may_differ(word: str) -> bool:
    if word not in ("check", "skip"):
        raise InvalidOption("repeatedBatch", f"is {word!r}: expected check or skip.")
    return word == "skip"
