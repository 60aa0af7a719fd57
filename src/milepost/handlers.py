"""What a handler is, whatever calls it: its colour, and the ways in which it deceives itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


def owner_of(handler: Handler) -> object:
    """What a handler belongs to: the object whose method it is, or itself."""
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__self__", handler)


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a handler can be given beyond its first argument."""

    names: tuple[str, ...]  # in order
    required: frozenset[str]
    takes_any: bool  # *args

    def second(self, besides: Iterable[str]) -> str | None:
        """The one that is filled by its place: the first that is not given by its name."""
        return next((name for name in self.names if name not in besides), None)


def parameters_of(handler: Handler) -> Parameters:
    """Nothing and anything, where Python cannot tell (a function written in C)."""
    try:
        found = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return Parameters((), frozenset(), takes_any=True)
    rest = [p for p in found[1:] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    required = frozenset(p.name for p in rest if p.default is p.empty)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in found)
    return Parameters(tuple(p.name for p in rest), required, takes_any)


def refuse_class(handler: Handler) -> None:
    if inspect.isclass(handler):
        raise TypeError(
            f"{handler.__name__} is a class: calling it would make an object and handle nothing. "
            f"Pass an instance, {handler.__name__}(...)."
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
