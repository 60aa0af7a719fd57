"""From a message to the columns of its row, refusing what the log cannot hold.

Everything is checked here, before it is sent: a bad message leaves the caller's transaction as it
was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from milepost.errors import InvalidMessage, PayloadTooLarge
from milepost.records import Message

DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024
_MAX_CHARACTERS = {"type": 255, "topic": 255, "key": 1024}


class Row(NamedTuple):
    """The columns of a message, in the order in which every append lists them."""

    id: UUID
    topic: str
    key: str | None
    type: str
    data: str
    metadata: str


def not_a_message(given: object) -> TypeError:
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        advice = "Pass each of its messages as an argument of its own: append(conn, *messages)."
    else:
        advice = 'Pass Message("Type", data).'
    return TypeError(
        f"append takes messages (milepost.Message), not {type(given).__name__}: nothing was "
        f"written. {advice}"
    )


def encode(message: Message, max_payload_bytes: int) -> Row:
    if not isinstance(message, Message):
        raise not_a_message(message)
    _check_text("type", message.type)
    _check_text("topic", message.topic)
    if message.key is not None:
        _check_text("key", message.key)
    if not isinstance(message.id, UUID):
        raise InvalidMessage("id", f"must be a uuid.UUID, not {type(message.id).__name__}.")
    data = _json("data", message.data)
    metadata = "{}" if not message.metadata else _metadata(message.metadata)
    if len(data) + len(metadata) > max_payload_bytes // 4:
        _check_size(message, data, metadata, max_payload_bytes)
    # Past NamedTuple's own constructor, which costs as much as all the checks above.
    return tuple.__new__(
        Row, (message.id, message.topic, message.key, message.type, data, metadata)
    )


def _check_text(field: str, text: object) -> None:
    if not isinstance(text, str):
        raise InvalidMessage(field, f"must be a str, not {type(text).__name__}.")
    if not 0 < len(text) <= _MAX_CHARACTERS[field]:
        size = "is empty" if not text else f"has {len(text)} characters"
        raise InvalidMessage(field, f"{size}; it takes 1 to {_MAX_CHARACTERS[field]}.")
    if "\0" in text:
        raise InvalidMessage(field, "holds a NUL character, which PostgreSQL text cannot store.")
    if not text.isascii():
        _check_encodable(field, text)


def _check_encodable(field: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidMessage(field, "holds a lone surrogate, which is not valid text.") from None


def _check_size(message: Message, data: str, metadata: str, max_payload_bytes: int) -> None:
    """Only called when a quarter of the limit is passed in characters: each takes 1 to 4 bytes."""
    size = len(data.encode()) + len(metadata.encode())
    if size > max_payload_bytes:
        raise PayloadTooLarge(
            f"data and metadata of message {message.id} ({message.type}) take {size} bytes, the "
            f"limit is {max_payload_bytes}. Keep large content elsewhere and append a reference, "
            "or raise max_payload_bytes."
        )


def _metadata(metadata: object) -> str:
    if isinstance(metadata, dict):
        return _json("metadata", metadata)
    if isinstance(metadata, Mapping):
        return _json("metadata", dict(metadata))
    raise InvalidMessage("metadata", f"must be a mapping, not {type(metadata).__name__}.")


def _json(field: str, value: Any) -> str:
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError as exc:
        raise InvalidMessage(field, f"is not JSON: {exc}.") from exc
    # orjson writes NaN and infinity as null, and NUL as an escape that no SQL operator can
    # read. Both are rare, so only a text in which they may hide is looked through.
    if "null" in text or "\\u0000" in text:
        _refuse_unrepresentable(field, value)
    return text


def _refuse_unrepresentable(field: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidMessage(field, f"holds {value}, which JSON cannot express. Use None or text.")
    if isinstance(value, str) and "\0" in value:
        raise InvalidMessage(field, "holds a NUL character, which PostgreSQL text cannot store.")
    if isinstance(value, Enum):
        _refuse_unrepresentable(field, value.value)
    elif is_dataclass(value):
        for own in fields(value):
            _refuse_unrepresentable(field, getattr(value, own.name))
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_unrepresentable(field, key)
            _refuse_unrepresentable(field, item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_unrepresentable(field, item)
