"""Handlers are given a Session of SQLAlchemy that works in the transaction of the checkpoint, or of
the job. One Session for each transaction: nothing of a failed attempt survives in it.

A Session is made by the user's factory, and so is of the user's class and options. What would end
the transaction is replaced on that one object: whoever calls it gets an error that says why.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sqlalchemy.orm import Session, scoped_session

from milepost.drivers.handed_connection import (
    EngineSettings,
    Handed,
    HandedAsync,
    HandedSync,
    handing,
)

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

    from milepost.db import AsyncConnection, Connection

# Methods of a Session that end its transaction.
ENDINGS = ("commit", "rollback", "close", "reset", "invalidate", "prepare")


@dataclass(eq=False)
class SessionBinding:
    """`factory` is called with `bind=`."""

    factory: Callable[..., Any]
    settings: EngineSettings = field(default_factory=EngineSettings)

    @classmethod
    def of(cls, session: Any) -> SessionBinding:
        scoped: Any = (scoped_session, *async_kinds("async_scoped_session"))
        if isinstance(session, scoped):
            session = session.session_factory
        if isinstance(session, (Session, *async_kinds("AsyncSession"))) or not callable(session):
            raise TypeError(
                f"session is {session!r}: expected what makes Sessions, as sessionmaker(engine) or "
                "the class Session. Each transaction gets a Session of its own."
            )
        return cls(session, EngineSettings.of(getattr(session, "kw", {}).get("bind")))

    def check(self, *, is_async: bool) -> None:
        if self._makes_async and not is_async:
            raise TypeError(
                f"session={self.factory!r} makes Sessions for async def handlers, and the handler "
                "is def. Make it async def, or pass a sessionmaker."
            )

    @contextmanager
    def bound(self, conn: Connection) -> Iterator[Session]:
        handed = HandedSync(conn, self._on_cursor)
        with handing(handed):
            bind = self._engine.connect()
        with (
            bind,
            closing(_expected(Session, self.factory(bind=bind))) as made,
            _refusing(made, bind, handed),
        ):
            yield made
            made.flush()
            handed.raise_refused()

    @asynccontextmanager
    async def bound_async(self, conn: AsyncConnection) -> AsyncIterator[AsyncSession]:
        handed = HandedAsync(conn, self._on_cursor)
        with handing(handed):
            bind = await self._async_engine().connect()
        async with aclosing(bind), aclosing(self._make_async(bind)) as made:
            with _refusing(made.sync_session, bind.sync_connection, handed):
                yield made
                await made.flush()
                handed.raise_refused()

    def _make_async(self, bind: Any) -> Any:
        """A factory of Sessions makes what an AsyncSession works with."""
        from sqlalchemy.ext.asyncio import AsyncSession

        if self._makes_async is False:
            kind: Any = self.factory
            return AsyncSession(bind, sync_session_class=kind)
        return _expected(AsyncSession, self.factory(bind=bind))

    @cached_property
    def _makes_async(self) -> bool | None:
        """None: only its caller knows."""
        if isinstance(self.factory, async_kinds("async_sessionmaker")):
            return True
        kind = getattr(self.factory, "class_", self.factory)
        return issubclass(kind, async_kinds("AsyncSession")) if isinstance(kind, type) else None

    @cached_property
    def _on_cursor(self) -> Callable[[Any], None] | None:
        return self.settings.on_cursor

    @cached_property
    def _engine(self) -> Engine:
        return self.settings.engine()

    @cached_property
    def _async_engines(self) -> WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncEngine]:
        return WeakKeyDictionary()

    def _async_engine(self) -> AsyncEngine:
        """The locks in an engine belong to one event loop."""
        loop = asyncio.get_running_loop()
        if (engine := self._async_engines.get(loop)) is None:
            engine = self._async_engines[loop] = self.settings.async_engine()
        return engine


@contextmanager
def _refusing(session: Session, bind: Any, handed: Handed) -> Iterator[None]:
    """While the handlers run. All statements of the session go to the connection, also where its
    class or its factory has other engines for some tables, and in its one transaction."""
    own = vars(session)
    refused = {name: partial(handed.refuse, f"{name}()") for name in ENDINGS}
    refused["begin"] = partial(_begin, session.begin, handed)
    own |= {**refused, "get_bind": lambda *_, **__: bind, "twophase": False}
    handed.is_open = True
    try:
        yield
    finally:
        handed.is_open = False
        for name in refused:
            del own[name]


def _begin(begin: Callable[..., Any], handed: Handed, nested: bool = False) -> Any:
    """`session.begin_nested()` calls it too."""
    return begin(nested=True) if nested else handed.refuse("begin()")


def _expected(kind: type[Any], made: Any) -> Any:
    if not isinstance(made, kind):
        raise TypeError(
            f"session= made {made!r} for a handler that needs a {kind.__name__}: a sessionmaker is "
            "for def and async def handlers, an async_sessionmaker for async def."
        )
    return made


def async_kinds(name: str) -> tuple[type, ...]:
    """A class of SQLAlchemy's asyncio, which needs greenlet, if the user has imported that."""
    module = sys.modules.get("sqlalchemy.ext.asyncio")
    return () if module is None else (getattr(module, name),)
