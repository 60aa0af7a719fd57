"""From a job to the columns of its row, refusing what the queue cannot hold.

Everything is checked here, before it is sent: a bad job leaves the caller's transaction as it was.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from milepost.errors import InvalidJob

if TYPE_CHECKING:
    from milepost.records import Job

_MAX_CHARACTERS = {"channel": 255, "unique_key": 1024}
_LOWEST_PRIORITY, _HIGHEST_PRIORITY = -(2**15), 2**15 - 1
_DEFAULT_ATTEMPTS, _MOST_ATTEMPTS = 25, 2**31 - 1


class Row(NamedTuple):
    """The columns of a job. Of `run_at` and `delay` at most one is given."""

    channel: str
    content: bytes
    run_at: datetime | None
    delay: timedelta | None
    priority: int
    max_attempts: int
    unique_key: str | None
    state: bytes | None
    keep_for: timedelta | None


# What follows channel and content in the row of a job that has nothing else to say.
PLAIN = (None, None, 0, _DEFAULT_ATTEMPTS, None, None, None)


def encode(job: Job) -> Row:
    check_channel(job.channel)
    content = encode_value("content", job.content)
    if job.run_at is None and job.unique_key is None and job.keep_for is None:
        delay = run_at = None
    else:
        run_at, delay = _times(job)
    if job.priority != 0 or job.max_attempts != _DEFAULT_ATTEMPTS:
        _check_numbers(job)
    state = None if job.state is None else encode_value("state", job.state)
    # Past NamedTuple's own constructor, which costs as much as all the checks above.
    return tuple.__new__(
        Row,
        (
            job.channel,
            content,
            run_at,
            delay,
            job.priority,
            job.max_attempts,
            job.unique_key,
            state,
            job.keep_for,
        ),
    )


def is_plain(job: Job) -> bool:
    """Whether there is nothing to say about it but its channel and content."""
    return (
        job.run_at is None
        and job.priority == 0
        and job.max_attempts == _DEFAULT_ATTEMPTS
        and job.state is None
        and job.keep_for is None
    )


def check_channel(name: object) -> None:
    _check_text("channel", name)


def encode_value(field: str, value: Any) -> bytes:
    """JSON; bytes as they are."""
    if isinstance(value, bytes):
        return value
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError as exc:
        raise InvalidJob(field, f"is not JSON: {exc}.") from exc
    # orjson writes NaN and infinity as null.
    if b"null" in text:
        _refuse_infinite(field, value)
    return text


def _times(job: Job) -> tuple[datetime | None, timedelta | None]:
    """Checks the key and the time to keep as well: what few jobs have."""
    if job.unique_key is not None:
        _check_text("unique_key", job.unique_key)
    if job.keep_for is not None and job.keep_for <= timedelta(0):
        raise InvalidJob("keep_for", f"is {job.keep_for}: expected more than nothing.")
    if job.run_at is None:
        return None, None
    if isinstance(job.run_at, timedelta):
        return None, job.run_at
    if not isinstance(job.run_at, datetime):
        kind = type(job.run_at).__name__
        raise InvalidJob("run_at", f"must be a datetime or a timedelta, not {kind}.")
    if job.run_at.tzinfo is None:
        raise InvalidJob("run_at", f"is {job.run_at}, without a time zone. Times are absolute.")
    return job.run_at, None


def _check_numbers(job: Job) -> None:
    _check_number("priority", job.priority, _LOWEST_PRIORITY, _HIGHEST_PRIORITY)
    _check_number("max_attempts", job.max_attempts, 1, _MOST_ATTEMPTS)


def _check_number(field: str, number: object, lowest: int, highest: int) -> None:
    if not isinstance(number, int) or not lowest <= number <= highest:
        raise InvalidJob(field, f"is {number!r}: expected {lowest} to {highest}.")


def _check_text(field: str, text: object) -> None:
    if not isinstance(text, str):
        raise InvalidJob(field, f"must be a str, not {type(text).__name__}.")
    if not 0 < len(text) <= _MAX_CHARACTERS[field]:
        size = "is empty" if not text else f"has {len(text)} characters"
        raise InvalidJob(field, f"{size}; it takes 1 to {_MAX_CHARACTERS[field]}.")
    if "\0" in text:
        raise InvalidJob(field, "holds a NUL character, which PostgreSQL text cannot store.")
    if not text.isascii():
        _check_encodable(field, text)


def _check_encodable(field: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidJob(field, "holds a lone surrogate, which is not valid text.") from None


def _refuse_infinite(field: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidJob(field, f"holds {value}, which JSON cannot express. Use None or text.")
    if is_dataclass(value):
        for own in fields(value):
            _refuse_infinite(field, getattr(value, own.name))
    elif isinstance(value, dict):
        for item in value.values():
            _refuse_infinite(field, item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_infinite(field, item)
