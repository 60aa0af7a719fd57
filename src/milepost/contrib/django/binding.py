"""Handlers whose `tx` is Django's connection: what they do by the ORM commits with the checkpoint,
or with the end of the job.

In the thread of the handler, the connection of the alias is replaced for the time of the call. So
the ORM needs no `using=`, and code that a handler calls need not know of Milepost.
"""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import local
from typing import TYPE_CHECKING, Any

from django.db import connections

from milepost.contrib.django.borrowed import borrowed_wrapper
from milepost.contrib.django.connections import close_unused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.db import AsyncConnection, Connection

log = logging.getLogger("milepost.django")


class _OfThread(local):
    """What one thread has of a binding."""

    wrapper: Any = None
    callbacks: list[Any] | None = None  # to be called after the commit


class DjangoBinding:
    """A `milepost.binding.Binding` for one of `settings.DATABASES`."""

    def __init__(self, using: str) -> None:
        self.using = using
        self._own = _OfThread()

    def __repr__(self) -> str:
        return f"DjangoBinding({self.using!r})"

    def check(self, *, is_async: bool) -> None:
        if is_async:
            raise TypeError(
                "An async def handler cannot share its transaction with Django's ORM, which is "
                "synchronous: aget() and asave() run in another thread, on another connection. "
                "Make the handler a def, which runs in a thread of its own; or pass session=None "
                "and use the psycopg connection that it is given as tx."
            )

    @contextmanager
    def bound(self, conn: Connection, /) -> Iterator[Any]:
        own = self._own
        own.callbacks = None
        if own.wrapper is None:
            own.wrapper = borrowed_wrapper(self.using)
        with _installed(self.using, own.wrapper):
            try:
                own.wrapper.begin(conn)
                yield own.wrapper
                own.wrapper.refuse_ended()
                own.callbacks = own.wrapper.callbacks()
            finally:
                own.wrapper.end()

    def bound_async(self, _conn: AsyncConnection, /) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError("async def handlers are refused by check().")

    def committed(self) -> None:
        """Calls what `transaction.on_commit` was given. The transaction is committed, so that a
        failure is logged and changes nothing: neither the checkpoint nor the other callbacks."""
        callbacks, self._own.callbacks = self._own.callbacks, None
        if not callbacks:
            return
        for function in callbacks:
            try:
                function()
            except Exception:
                log.exception("on_commit callback %r of a handler failed", function)
        close_unused()


@contextmanager
def _installed(using: str, wrapper: Any) -> Iterator[None]:
    """As the connection of the alias in this thread, which has its own one again afterwards."""
    opened = connections.all(initialized_only=True)
    former = next((each for each in opened if each.alias == using), None)
    connections[using] = wrapper
    try:
        yield
    finally:
        if former is None:
            del connections[using]
        else:
            connections[using] = former
