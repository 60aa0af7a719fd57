"""A message as a JSON line, in both directions: `append` accepts what `read` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from milepost.errors import InvalidMessage
from milepost.records import Message, RawMessage, RecordedMessage

# The log assigns new values to these.
_IGNORED = {"position", "recorded_at"}
_FIELDS = {"type", "data", "key", "topic", "metadata", "id"}


def message_from(line: bytes, defaults: Mapping[str, str]) -> Message:
    """`defaults` are for the fields that the line does not have."""
    fields = {**defaults, **_fields(line)}
    if fields.get("type") is None:
        raise InvalidMessage(
            "type", "is missing: add it to the line, or pass --type for all lines."
        )
    if "id" in fields:
        fields["id"] = _uuid(fields["id"])
    return Message(**fields)


def line_from(message: RecordedMessage) -> bytes:
    """A message that was not decoded is written as it is stored."""
    data: Any = message.data
    metadata: Any = message.metadata
    recorded_at: datetime | str = message.recorded_at.astimezone(UTC)
    if isinstance(message, RawMessage):
        data, metadata = _on_one_line(message.raw_data), _on_one_line(message.raw_metadata)
        recorded_at = message.raw_recorded_at or recorded_at
    return orjson.dumps(
        {
            "position": str(message.position),
            "id": message.id,
            "topic": message.topic,
            "key": message.key,
            "type": message.type,
            "data": data,
            "metadata": metadata,
            "recorded_at": recorded_at,
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


def _on_one_line(written: bytes) -> orjson.Fragment:
    """JSON has line breaks only between tokens, never inside a string."""
    return orjson.Fragment(written.replace(b"\n", b" ").replace(b"\r", b" "))


def _fields(line: bytes) -> dict[str, Any]:
    fields = _parsed(line)
    if not isinstance(fields, dict):
        raise InvalidMessage("the line", "is not a JSON object.")
    unknown = sorted(fields.keys() - _FIELDS - _IGNORED)
    if unknown:
        known = ", ".join(sorted(_FIELDS))
        raise InvalidMessage(
            "the line", f"has an unknown field {unknown[0]!r}; known fields: {known}."
        )
    if "data" not in fields:
        raise InvalidMessage("data", "is missing.")
    # As in SQL, null means that a field is not set; with a null key, a message has no key.
    unset = {name for name in ("topic", "metadata", "id") if fields.get(name) is None}
    return {name: fields[name] for name in fields.keys() - _IGNORED - unset}


def _parsed(line: bytes) -> Any:
    # Not orjson: it would silently turn an integer of more than 64 bits into a float.
    try:
        return json.loads(line.decode(), object_pairs_hook=_object)
    except json.JSONDecodeError as exc:
        # Without the line number of the parser: it is always 1.
        raise InvalidMessage("the line", f"is not JSON: {exc.msg} at {exc.colno}.") from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidMessage("the line", f"is not JSON: {exc}.") from exc


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse two values of one name: a parser keeps the last."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidMessage("the line", f"has {name!r} twice in one object.")
        found[name] = value
    return found


def _uuid(text: Any) -> UUID:
    try:
        return UUID(text)
    except (ValueError, TypeError, AttributeError):
        raise InvalidMessage("id", f"is {text!r}, which is not a UUID.") from None
