"""From a message to the columns of its row, refusing what the log cannot store.

Everything is checked here, before it is sent: a bad message does not change the caller's
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from milepost.encode import check_text, to_json
from milepost.errors import InvalidMessage, PayloadTooLarge
from milepost.records import Message

DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_CHARACTERS = {"type": 255, "topic": 255, "key": 1024}


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
        advice = "Pass each message as a separate argument: append(conn, *messages)."
    else:
        advice = 'Pass Message("Type", data).'
    return TypeError(
        f"append takes messages (milepost.Message), not {type(given).__name__}: nothing was "
        f"written. {advice}"
    )


def encode(message: Message, max_payload_bytes: int, trace: Mapping[str, str] | None = None) -> Row:
    """`trace` goes into the metadata, unless the caller has set one there. It does not count
    towards the limit: whether there is a span must not decide whether a message is stored."""
    if not isinstance(message, Message):
        raise not_a_message(message)
    _check_text("type", message.type)
    _check_text("topic", message.topic)
    if message.key is not None:
        _check_text("key", message.key)
    if not isinstance(message.id, UUID):
        raise InvalidMessage("id", f"must be a uuid.UUID, not {type(message.id).__name__}.")
    data = _json("data", message.data)
    # Not whatever is false: [] is not a mapping. Not `== {}`: another Mapping would be read twice.
    is_empty = message.metadata is None or (type(message.metadata) is dict and not message.metadata)
    metadata = "{}" if is_empty else _metadata(message.metadata)
    if len(data) + len(metadata) > max_payload_bytes // 4:
        _check_size(message, data, metadata, max_payload_bytes)
    if trace is not None and "traceparent" not in message.metadata:
        metadata = _metadata({**trace, **message.metadata})
    # Not with NamedTuple's own constructor, which costs as much as all the checks above.
    return tuple.__new__(
        Row, (message.id, message.topic, message.key, message.type, data, metadata)
    )


def _check_text(field: str, text: object) -> None:
    check_text(field, text, MAX_CHARACTERS[field], InvalidMessage)


def _check_size(message: Message, data: str, metadata: str, max_payload_bytes: int) -> None:
    """Only called above a quarter of the limit in characters: each takes 1 to 4 bytes."""
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
    return to_json(field, value, InvalidMessage).decode()
