"""Handlers, whatever calls them: sync or async, their parameters, and mistakes to refuse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from inspect import Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from psycopg.pq import TransactionStatus

from milepost.errors import ConnectionUnusable

if TYPE_CHECKING:
    from types import TracebackType

    from milepost.db import AsyncConnection, Connection

Handler: TypeAlias = Callable[..., Any]
_OURS = str(Path(__file__).parent)
_REMOVE = "remove the yield."


def is_async(handler: Handler) -> bool:
    while isinstance(handler, partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def layers_of(handler: Handler) -> Iterator[object]:
    """The handler, and what it stands for: what a partial calls, the object of a method, and what
    functools.wraps has noted. Each once, because what wraps may go round in a circle."""
    seen: list[object] = []
    layer: object = handler
    while layer is not None and not any(layer is each for each in seen):
        seen.append(layer)
        yield layer
        layer = _beneath(layer)


def _beneath(layer: object) -> object:
    """A method's object before what the method wraps, which is a function without an object."""
    if isinstance(layer, partial):
        return layer.func
    owner: object = getattr(layer, "__self__", None)
    return owner if owner is not None else getattr(layer, "__wrapped__", None)


def name_of(handler: Handler) -> str:
    """For messages: of its function, or of its class."""
    return str(getattr(handler, "__qualname__", type(handler).__name__))


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a handler after its first one."""

    names: tuple[str, ...]  # in order
    required: frozenset[str]

    def second(self, besides: Iterable[str]) -> str | None:
        """The parameter that is passed by position: the first that is not passed by name."""
        return next((name for name in self.names if name not in besides), None)


def parameters_of(handler: Handler) -> Parameters:
    """None if Python does not know them (a function written in C)."""
    if (signature := signature_of(handler)) is None:
        return Parameters((), frozenset())
    found = list(signature.parameters.values())
    rest = [p for p in found[1:] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    required = frozenset(p.name for p in rest if p.default is p.empty)
    return Parameters(tuple(p.name for p in rest), required)


def refuse_class(handler: Handler) -> None:
    if inspect.isclass(handler):
        raise TypeError(
            f"{handler.__name__} is a class: calling it would create an object and handle nothing. "
            f"Pass an instance, {handler.__name__}(...)."
        )


def refuse_uncallable(handler: object) -> None:
    if not callable(handler):
        raise TypeError(
            f"{handler!r} cannot be called, so no message can be given to it: add "
            "`def __call__(self, messages)` to its class, or pass one of its methods."
        )


def refuse_generator(handler: Handler) -> None:
    while isinstance(handler, partial):
        handler = handler.func
    for function in (handler, getattr(handler, "__call__", None)):  # noqa: B004 - of an object
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{name_of(handler)} holds a yield, so calling it does nothing: {_REMOVE}"
            )


def refuse_misspelt(where: str, given: Iterable[str], options: type) -> None:
    """Options that a TypedDict does not have."""
    known = options.__annotations__
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            instead = f"Did you mean {near[0]}=?" if near else f"It has {', '.join(known)}."
            raise TypeError(f"{where} has no option {name}=. {instead}")


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback of a handler's error, without the frames that called it."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def refuse_arguments(where: str, function: object, names: Sequence[str]) -> None:
    """What could not be called with these arguments, by position."""
    called = f"it is called with ({', '.join(names)})"
    if not callable(function):
        raise TypeError(f"{where} is {function!r}, which cannot be called; {called}.")
    if (signature := signature_of(function)) is None:
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise TypeError(f"{where} has the parameters {signature}, and {called}.") from error


def signature_of(function: Callable[..., Any], *, is_own: bool = False) -> Signature | None:
    """None if Python does not know it (a function written in C). `is_own`: of the function itself
    and not of what it wraps."""
    try:
        return inspect.signature(function, follow_wrapped=not is_own)
    except (TypeError, ValueError):
        return None


def refuse_unfinished(result: object) -> None:
    """A coroutine that is not awaited, or a generator that is not iterated, has done nothing, and
    its messages would be lost."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(f"The handler holds a yield, so calling it does nothing: {_REMOVE}")
    if not inspect.isawaitable(result):
        return
    if inspect.iscoroutine(result):
        result.close()
    raise TypeError(
        "The handler returned an awaitable and has done nothing yet: declare it with async def "
        "(a decorator may hide it)."
    )


def refuse_broken(conn: Connection | AsyncConnection) -> None:
    """The server answers the COMMIT of a failed transaction with a rollback and no error. So we
    check before: the handler may have caught the error."""
    if conn.info.transaction_status != TransactionStatus.INTRANS:
        raise ConnectionUnusable(
            "The handler left its transaction failed or ended: it caught a database error and "
            "continued, or ended the transaction in SQL. Use `with tx.transaction():` around "
            "statements that may fail."
        )


@contextmanager
def refusing_autocommit(conn: Connection | AsyncConnection) -> Iterator[None]:
    """In a transaction on a connection in autocommit mode: once the handler has ended it in SQL, no
    further statement is sent, because each would be committed by itself. The end of a savepoint's
    block passes: psycopg counts its blocks, and the server refuses it."""
    kind: Any = type(conn)

    def wait(generator: Any, *arguments: Any, **options: Any) -> Any:
        is_over = conn.info.transaction_status == TransactionStatus.IDLE
        if is_over and generator.__name__ != "_exit_gen":
            raise ConnectionUnusable(
                "The handler ended its transaction in SQL (COMMIT or ROLLBACK). The next statement "
                "was not executed: it would have been committed by itself."
            )
        return kind.wait(conn, generator, *arguments, **options)

    vars(conn)["wait"] = wait
    try:
        yield
    finally:
        del vars(conn)["wait"]


def storable(text: str) -> str:
    """A string that PostgreSQL can store: an error message may quote characters that it cannot."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
