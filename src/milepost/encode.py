"""The one encoder of messages and jobs: JSON values, and the strings beside them.

Everything is checked here, before it is sent: what is refused leaves the caller's transaction as it
was. `refused` is the error to raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeAlias

import orjson

from milepost.errors import MilepostError

Refused: TypeAlias = "Callable[[str, str], MilepostError]"  # of a field and the reason
_NUL = "holds a NUL character, which PostgreSQL text cannot store."


def to_json(field: str, value: Any, refused: Refused, *, may_hold_nul: bool = False) -> bytes:
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError as exc:
        raise refused(field, f"is not JSON: {exc}.") from exc
    # orjson writes NaN and infinity as null, and NUL as an escape that no SQL operator can read.
    # Both are rare, so the value is only searched if its JSON may contain them.
    if b"null" in text or (not may_hold_nul and b"\\u0000" in text):
        _refuse_unrepresentable(field, value, refused, may_hold_nul=may_hold_nul)
    return text


def check_text(field: str, text: object, longest: int, refused: Refused) -> None:
    if not isinstance(text, str):
        raise refused(field, f"must be a str, not {type(text).__name__}.")
    if not 0 < len(text) <= longest:
        size = "is empty" if not text else f"has {len(text)} characters"
        raise refused(field, f"{size}; it takes 1 to {longest}.")
    if "\0" in text:
        raise refused(field, _NUL)
    if not text.isascii():
        _check_encodable(field, text, refused)


def _check_encodable(field: str, text: str, refused: Refused) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise refused(field, "holds a lone surrogate, which is not valid text.") from None


def _refuse_unrepresentable(
    field: str, value: Any, refused: Refused, *, may_hold_nul: bool
) -> None:
    for leaf in _leaves(value):
        if isinstance(leaf, float) and not math.isfinite(leaf):
            raise refused(field, f"holds {leaf}, which JSON cannot express. Use None or a string.")
        if isinstance(leaf, str) and "\0" in leaf and not may_hold_nul:
            raise refused(field, _NUL)


def _leaves(value: Any) -> Iterator[Any]:
    """Everything that orjson writes, keys included."""
    if isinstance(value, Enum):
        inner: Any = [value.value]
    elif is_dataclass(value):
        inner = [getattr(value, own.name) for own in fields(value)]
    elif isinstance(value, dict):
        inner = [part for item in value.items() for part in item]
    elif isinstance(value, list | tuple):
        inner = value
    else:
        yield value
        return
    for part in inner:
        yield from _leaves(part)
