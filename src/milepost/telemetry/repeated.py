"""Whether what is handled now was given to its handler before: then its span gets a link."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_is_repeated: ContextVar[bool] = ContextVar("milepost_is_repeated", default=False)


@contextmanager
def repeating() -> Iterator[None]:
    """Around attempts that are not the first. Also for what they start on an event loop."""
    token = _is_repeated.set(True)
    try:
        yield
    finally:
        _is_repeated.reset(token)


def is_repeated() -> bool:
    return _is_repeated.get()
