"""`Milepost.from_django()`: on the database of the settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.conf import settings

from milepost.contrib.django.binding import DjangoBinding
from milepost.contrib.django.connections import close_unused
from milepost.contrib.django.settings import database_url, milepost_settings

if TYPE_CHECKING:
    from milepost.app import Milepost


def from_django(kind: type[Milepost], using: str | None, *, orm: bool) -> Milepost:
    """Settings that are wrong are refused here; the URL is asked for when it is needed."""
    own = milepost_settings()
    alias = using or own.using
    database_url(alias)
    mp = kind(
        partial(database_url, alias),
        schema=own.schema,
        max_connections=own.max_connections,
        max_payload_bytes=own.max_payload_bytes,
        session=DjangoBinding(alias) if orm else None,
    )
    mp.around(closing_old)
    mp.around(closing_old_async)
    if getattr(settings, "TASKS", None):
        _add_tasks(mp, alias)
    return mp


def _add_tasks(mp: Milepost, using: str) -> None:
    """Imported here: a project without tasks need not have them installed."""
    from milepost.contrib.django.task_worker import add_workers
    from milepost.contrib.django.tasks import milepost_backends

    add_workers(mp, milepost_backends(using))


def closing_old(_job: Any, call: Callable[[], Any]) -> Any:
    """As around a request: what a handler without a transaction has opened by the ORM is closed
    after CONN_MAX_AGE, and if it is broken."""
    close_unused()
    try:
        return call()
    finally:
        close_unused()


async def closing_old_async(_job: Any, call: Callable[[], Any]) -> Any:
    """In the thread in which the ORM's methods for coroutines run."""
    await sync_to_async(close_unused)()
    try:
        return await call()
    finally:
        await sync_to_async(close_unused)()
