"""`Milepost.from_django()`: on the database of the settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from milepost.contrib.django.settings import database_url, milepost_settings

if TYPE_CHECKING:
    from milepost.app import Milepost


def from_django(kind: type[Milepost], using: str | None = None) -> Milepost:
    """Settings that are wrong are refused here; the URL is asked for when it is needed."""
    own = milepost_settings()
    alias = using or own.using
    database_url(alias)
    return kind(
        partial(database_url, alias),
        schema=own.schema,
        max_connections=own.max_connections,
        max_payload_bytes=own.max_payload_bytes,
    )
