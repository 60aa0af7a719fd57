"""What a handler is given instead of the psycopg connection of its transaction: a Session, say.

A binding makes that object for one transaction and takes it back before the transaction commits.
`session=` of a processor or a worker is a binding, or a factory of Sessions from which one is made.
Nothing is imported for this that the user has not imported: a factory is recognised by its class.
"""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection

SQLALCHEMY = ("sqlalchemy", "sqlmodel")  # the packages whose classes make or are Sessions


@runtime_checkable
class Binding(Protocol):
    """`bound` yields what the handlers of one transaction are given. They are called inside; the
    checkpoint, or the end of a job, commits after it. A normal exit writes what the object still
    holds back and raises if the handler has ended the transaction, or tried to. An exit by an
    exception writes nothing. After either, the object must not reach the connection any more.

    It is called concurrently from several threads, each with a connection of its own. The
    connection is in a `transaction()` block of psycopg, which the object must not end.
    """

    def check(self, *, is_async: bool) -> None:
        """Refuses handlers of a colour for which it has nothing, when they are registered."""

    def bound(self, conn: Connection, /) -> AbstractContextManager[Any]:
        """For `def` handlers."""

    def bound_async(self, conn: AsyncConnection, /) -> AbstractAsyncContextManager[Any]:
        """For `async def` handlers."""


def bound(binding: Binding | None, conn: Connection) -> AbstractContextManager[Any]:
    """Without a binding, handlers are given the connection."""
    return nullcontext(conn) if binding is None else binding.bound(conn)


def bound_async(binding: Binding | None, conn: AsyncConnection) -> AbstractAsyncContextManager[Any]:
    return nullcontext(conn) if binding is None else binding.bound_async(conn)


def committed(binding: Binding | None) -> None:
    """In the thread of the handlers, after their transaction has committed. Not every binding has
    something to do then."""
    if (notice := getattr(binding, "committed", None)) is not None:
        notice()


def binding_of(session: Any) -> Binding:
    """`session=`, as a binding: a sessionmaker, a class of Sessions, any callable that takes
    `bind=` and returns a Session, or a binding."""
    if isinstance(session, Binding):
        return session
    if is_of(session, SQLALCHEMY) or (callable(session) and "sqlalchemy" in sys.modules):
        from milepost.drivers.session_binding import SessionBinding

        return SessionBinding.of(session)
    raise TypeError(
        f"session is {session!r}: expected what makes Sessions of SQLAlchemy, as "
        "sessionmaker(engine) or the class Session, or a binding (milepost.binding.Binding)."
    )


def is_of(found: Any, packages: tuple[str, ...]) -> bool:
    """Whether a class, or the class of an object, comes from one of these packages."""
    kind = found if isinstance(found, type) else type(found)
    return any(each.__module__.partition(".")[0] in packages for each in kind.__mro__)
