"""What a handler is, whatever calls it: its colour, and the ways in which it deceives itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from psycopg.pq import TransactionStatus

from milepost.errors import ConnectionUnusable

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection

Handler: TypeAlias = Callable[..., Any]


def is_async(handler: Handler) -> bool:
    while isinstance(handler, partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def refuse_unfinished(result: object) -> None:
    """A coroutine that nobody awaits, or a generator that nobody walks through, has done nothing,
    and its messages would be lost."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError("The handler holds a yield, so that calling it does nothing: remove it.")
    if not inspect.isawaitable(result):
        return
    if inspect.iscoroutine(result):
        result.close()
    raise TypeError(
        "The handler returned an awaitable and has done nothing yet: declare it with async def "
        "(a decorator may hide that it is)."
    )


def refuse_broken(conn: Connection | AsyncConnection) -> None:
    """The server answers the COMMIT of a failed transaction with a rollback and no error, so a
    handler that hides an error from us must not get that far."""
    if conn.info.transaction_status != TransactionStatus.INTRANS:
        raise ConnectionUnusable(
            "The handler left its transaction failed or ended: it caught an error of the database "
            "and went on, or ended the transaction in SQL. Use `with tx.transaction():` around "
            "what may fail."
        )


def storable(text: str) -> str:
    """As PostgreSQL's text can hold it: an error may quote what it choked on."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
