"""A message as a line of JSON, in both directions. What `read` writes, `append` accepts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from milepost.errors import InvalidMessage
from milepost.records import Message, RawMessage

if TYPE_CHECKING:
    from milepost.records import RecordedMessage

# The log gives these anew.
_IGNORED = {"position", "recorded_at"}
_FIELDS = {"type", "data", "key", "topic", "metadata", "id"}


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a line that does not name them gets."""

    type: str | None = None
    topic: str | None = None
    key: str | None = None


def message_from(line: bytes, defaults: Defaults) -> Message:
    fields = _fields(line)
    given: dict[str, Any] = {n: fields[n] for n in ("topic", "metadata") if n in fields}
    if "id" in fields:
        given["id"] = _uuid(fields["id"])
    if "topic" not in given and defaults.topic is not None:
        given["topic"] = defaults.topic
    kind = fields.get("type", defaults.type)
    if kind is None:
        raise InvalidMessage("type", "is missing: name it in the line, or for all with --type.")
    return Message(kind, fields["data"], key=fields.get("key", defaults.key), **given)


def line_from(message: RecordedMessage) -> bytes:
    """One that was not decoded as it was written."""
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
    """JSON has line breaks between its parts only, never within a text."""
    return orjson.Fragment(written.replace(b"\n", b" ").replace(b"\r", b" "))


def _fields(line: bytes) -> dict[str, Any]:
    fields = _parsed(line)
    if not isinstance(fields, dict):
        raise InvalidMessage("the line", "is not a JSON object.")
    unknown = sorted(fields.keys() - _FIELDS - _IGNORED)
    if unknown:
        known = ", ".join(sorted(_FIELDS))
        raise InvalidMessage("the line", f"has an unknown field {unknown[0]!r}; known are {known}.")
    if "data" not in fields:
        raise InvalidMessage("data", "is missing.")
    # As in SQL, null stands for a field that was left out; a key of null is no key.
    optional = ("topic", "metadata", "id")
    return {
        name: value for name, value in fields.items() if value is not None or name not in optional
    }


def _parsed(line: bytes) -> Any:
    # Not orjson: it would silently turn an integer of more than 64 bits into a float.
    try:
        return json.loads(line.decode())
    except json.JSONDecodeError as exc:
        # Without its own idea of the line: every line is its line 1.
        raise InvalidMessage("the line", f"is not JSON: {exc.msg} at {exc.colno}.") from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidMessage("the line", f"is not JSON: {exc}.") from exc


def _uuid(text: Any) -> UUID:
    try:
        return UUID(text)
    except (ValueError, TypeError, AttributeError):
        raise InvalidMessage("id", f"is {text!r}, which is not a UUID.") from None
