"""The options of the source: strings are parsed and checked. No error shows a URL."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from milepost import db, sql
from milepost.checkpoints import CheckpointKey
from milepost.errors import InvalidOption, InvalidPosition, StartAfterEnd
from milepost.pipeline import refuse_pooled
from milepost.pipeline.names import COLUMNS, CONTENT
from milepost.pipeline.source.filters import EVERYTHING, Conditions
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Start: TypeAlias = "Position | datetime | CheckpointKey | Literal['earliest', 'latest']"
End: TypeAlias = "Position | datetime | Literal['latest']"
D = TypeVar("D")

NAMES = (
    "url",
    "schema",
    "topics",
    "types",
    "startingPosition",
    "endingPosition",
    "processor",
    "maxMessagesPerTrigger",
    "partitions",
    "messagesPerPartition",
    "columns",
    "retrySeconds",
)
DEFAULT_MESSAGES_PER_PARTITION = 250_000
DEFAULT_RETRY_SECONDS = 60
NO_CONTENT = (
    f"names {CONTENT}, which the source does not have: it would encode each VARIANT in Python. Use "
    "milepost.pipeline.history(), or parse_json(data)."
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read. The URL may contain a password and is not in the repr."""

    conninfo: str = field(repr=False)
    schema: str = sql.DEFAULT_SCHEMA
    conditions: Conditions = EVERYTHING
    start: Start = "earliest"
    end: End = "latest"
    max_messages: int | None = None
    partitions: int | None = None
    messages_per_partition: int = DEFAULT_MESSAGES_PER_PARTITION
    columns: tuple[str, ...] = tuple(COLUMNS)
    retry_seconds: int = DEFAULT_RETRY_SECONDS

    def __post_init__(self) -> None:
        """A position and a time are compared when the read is planned: the log knows which is
        first."""
        are_times = isinstance(self.start, datetime) and isinstance(self.end, datetime)
        if are_times and self.start > self.end:  # type: ignore[operator]  # both are times
            raise StartAfterEnd(self.start, self.end)


def parse(given: Mapping[str, str], environ: Mapping[str, str]) -> SourceOptions:
    """The case of names does not matter, as in Spark. An unknown name is refused: a misspelt filter
    would read everything."""
    options = known_options(given, NAMES)
    return SourceOptions(
        conninfo=complete_conninfo(options.get("url"), environ),
        schema=sql.check_schema_name(options.get("schema", sql.DEFAULT_SCHEMA)),
        conditions=Conditions(topics=_strings(options, "topics"), types=_strings(options, "types")),
        start=_start(options),
        end=_end(options),
        max_messages=count(options, "maxMessagesPerTrigger", None),
        partitions=count(options, "partitions", None),
        messages_per_partition=count(
            options, "messagesPerPartition", DEFAULT_MESSAGES_PER_PARTITION
        ),
        columns=_columns(options),
        retry_seconds=count(options, "retrySeconds", DEFAULT_RETRY_SECONDS, least=0),
    )


def known_options(given: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """By the names as they are written here."""
    known = {name.lower(): name for name in names}
    options: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            raise InvalidOption(name, f"is not known. There are: {', '.join(names)}.")
        options[known[name.lower()]] = value
    return options


def complete_conninfo(url: str | None, environ: Mapping[str, str]) -> str:
    """The URL, completed by what libpq reads from the environment: that of executors differs."""
    given = db.environment_url(environ) if url is None else url
    if given is None:
        raise InvalidOption(
            "url", "is missing: pass it, or set MILEPOST_URL or PGHOST for the driver."
        )
    refuse_pooled(given)
    parts = _libpq_variables(environ) | conninfo_to_dict(db.conninfo(given, "milepost-spark"))
    return make_conninfo("", **parts)


def _libpq_variables(environ: Mapping[str, str]) -> dict[str, str | int | None]:
    known = ((o.envvar, o.keyword) for o in pq.Conninfo.get_defaults() if o.envvar)
    values = ((keyword.decode(), environ.get(name.decode())) for name, keyword in known)
    return {keyword: value for keyword, value in values if value}


def _strings(options: Mapping[str, str], name: str) -> frozenset[str] | None:
    """`orders,payments`, or a JSON list, for names with commas in them."""
    if name not in options:
        return None
    text = options[name].strip()
    is_json = text.startswith("[")
    names = _json_list(name, text) if is_json else [part.strip() for part in text.split(",")]
    if not names or not all(names):
        raise InvalidOption(name, f"is {text!r}: expected names with commas between them.")
    return frozenset(names)


def _json_list(name: str, text: str) -> list[str]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidOption(name, f"is {text!r}: expected a JSON list of strings, or a,b,c.")
    return found


def count(options: Mapping[str, str], name: str, default: D, least: int = 1) -> int | D:
    if name not in options:
        return default
    text = options[name].strip()
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise InvalidOption(name, f"is {text!r}: expected an integer of at least {least}.")
    return int(text)


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    names = _strings(options, "columns")
    if names is None:
        return tuple(COLUMNS)
    if CONTENT in names:
        raise InvalidOption("columns", NO_CONTENT)
    if unknown := sorted(names - COLUMNS.keys()):
        raise InvalidOption(
            "columns", f"names {', '.join(unknown)}. There are: {', '.join(COLUMNS)}."
        )
    return tuple(name for name in COLUMNS if name in names)


def _start(options: Mapping[str, str]) -> Start:
    text = options.get("startingPosition", "earliest").strip()
    if text == "checkpoint":
        return _checkpoint(options.get("processor", ""))
    if "processor" in options:
        raise InvalidOption(
            "processor",
            "says whose checkpoint to start from: it needs startingPosition=checkpoint.",
        )
    if text in ("earliest", "latest"):
        return text  # type: ignore[return-value]  # mypy does not narrow a string to a literal
    return _place("startingPosition", text, "earliest, latest, checkpoint")


def _end(options: Mapping[str, str]) -> End:
    text = options.get("endingPosition", "latest").strip()
    return "latest" if text == "latest" else _place("endingPosition", text, "latest")


def _checkpoint(processor: str) -> CheckpointKey:
    name, at, version = processor.partition("@")
    if not name:
        raise InvalidOption(
            "startingPosition", "is 'checkpoint', which needs the option processor=NAME[@VERSION]."
        )
    if at and not (version.isascii() and version.isdigit()):
        raise InvalidOption("processor", f"is {processor}: expected NAME or NAME@VERSION.")
    return CheckpointKey(name, int(version) if at else 1)


def _place(option: str, text: str, words: str) -> Position | datetime:
    try:
        return Position.parse(text)
    except InvalidPosition:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise InvalidOption(
            option,
            f"is {text!r}: expected {words}, a position like 17:42 or 42, or a time with its "
            "zone like 2026-01-31T12:00:00+00:00.",
        )
    return time
