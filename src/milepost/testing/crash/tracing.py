"""Sees every statement that a process sends through psycopg, and kills the process at one of them.

All of psycopg's work with the server goes through `wait` of its two classes of connections: those
of Milepost, and those that a handler opens by itself or through SQLAlchemy or Django. They are
replaced in a forked process that ends soon, never in that of the test.
"""

from __future__ import annotations

import inspect
import os
import signal
import socket
import sys
import sysconfig
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.sql import Composable

import milepost
from milepost.testing.crash.statements import (
    BEGIN,
    COMMIT,
    FIRST_CALL,
    RELEASE,
    ROLLBACK,
    SAVEPOINT,
    Key,
    Occurrences,
    Side,
    Statement,
    plain_text,
)

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection

_STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))
_CALLED = ("opentelemetry", "cronsim", "uuid_", "_pytest", "pluggy")
# Milepost's files, psycopg's, and those of packages that Milepost calls by itself: pytest is
# called with what is logged and imported.
_OURS = (
    *(str(Path(str(module.__file__)).parent) for module in (milepost, psycopg)),
    *(f"{place}/{name}" for place in _INSTALLED for name in _CALLED),
)
_NAMED = {"_commit_gen": COMMIT, "_rollback_gen": ROLLBACK, "copy_end": "end of COPY"}
# They receive what a statement has found, or send its data: nothing begins or ends on the server.
_PARTS = ("notifies", "copy_to", "_stream_fetchone_gen", "_read_gen", "_read_row_gen",
          "_end_copy_out_gen", "_fetch_gen", "_sync_gen")  # fmt: skip


@dataclass(slots=True)
class Tracer:
    """`report` is told each statement when it has ended. At `crash_at` the process is killed; with
    the sides `lost` and `cut`, the connection is lost instead."""

    report: Callable[[Statement], None]
    on_crash: Callable[[], None]
    crash_at: tuple[Key, Side] | None = None
    # The function below which nothing is the user's code. None: whose code it is is not looked at.
    ends_at: CodeType | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _number: int = field(default=0, init=False)
    _occurrences: Occurrences = field(default_factory=Occurrences, init=False)
    _connections: WeakKeyDictionary[Any, int] = field(default_factory=WeakKeyDictionary, init=False)
    _blocks: WeakKeyDictionary[Any, list[str]] = field(
        default_factory=WeakKeyDictionary, init=False
    )
    _has_user_run: bool = field(default=False, init=False)

    def install(self) -> None:
        wait, wait_async = psycopg.Connection.wait, psycopg.AsyncConnection.wait
        tracer = self

        def traced(conn: Connection, gen: Any, *arguments: Any, **options: Any) -> Any:
            statement = tracer.begins(conn, gen)
            try:
                return wait(conn, gen, *arguments, **options)
            finally:
                tracer.ended(conn, statement)

        async def traced_async(
            conn: AsyncConnection, gen: Any, *arguments: Any, **options: Any
        ) -> Any:
            statement = tracer.begins(conn, gen)
            try:
                return await wait_async(conn, gen, *arguments, **options)
            finally:
                tracer.ended(conn, statement)

        psycopg.Connection.wait = traced  # type: ignore[method-assign, assignment]
        psycopg.AsyncConnection.wait = traced_async  # type: ignore[method-assign, assignment]
        if self.ends_at is not None:
            threading.setprofile(self._called)
            sys.setprofile(self._called)

    def begins(self, conn: Connection | AsyncConnection, gen: Any) -> Statement | None:
        text = self._text_of(conn, gen)
        if text is None:
            return None
        with self._lock:
            self._number += 1
            statement = Statement(
                self._number,
                text,
                self._occurrences.next(text),
                self._users_line(),
                self._connections.setdefault(conn, len(self._connections)),
                is_durable=False,
                follows_user=self._has_user_run,
            )
            self._has_user_run = False
            if self.crash_at == (statement.key, "before"):
                self._die()
            if self.crash_at == (statement.key, "lost"):
                self.on_crash()
                _shut_down(conn)
        return statement

    def ended(self, conn: Connection | AsyncConnection, statement: Statement | None) -> None:
        if statement is None:
            return
        status = conn.info.transaction_status if not conn.closed else TransactionStatus.IDLE
        is_durable = status == TransactionStatus.IDLE
        with self._lock:
            if self.crash_at == (statement.key, "after"):
                self._die()
            self.report(replace(statement, is_durable=is_durable))
        if self.crash_at == (statement.key, "cut"):
            self.on_crash()
            _cut(conn)

    def _die(self) -> None:
        """As by the kernel, in the middle of anything."""
        self.on_crash()
        os.kill(os.getpid(), signal.SIGKILL)

    def _text_of(self, conn: Connection | AsyncConnection, gen: Any) -> str | None:
        name = getattr(gen, "__name__", "statement")
        if name in _PARTS:
            return None
        given = inspect.getgeneratorlocals(gen) if inspect.isgenerator(gen) else {}
        if name == "_enter_gen":
            return self._entered(conn)
        if name == "_exit_gen":
            return self._left(conn, failed=given.get("exc_val") is not None)
        query = given.get("query", given.get("statement"))
        return _NAMED.get(name, name.strip("_")) if query is None else _query_text(query)

    def _entered(self, conn: Connection | AsyncConnection) -> str:
        """Of `conn.transaction()`, which begins a transaction or a savepoint."""
        is_first = conn.info.transaction_status == TransactionStatus.IDLE
        self._blocks.setdefault(conn, []).append(COMMIT if is_first else RELEASE)
        return BEGIN if is_first else SAVEPOINT

    def _left(self, conn: Connection | AsyncConnection, *, failed: bool) -> str:
        end = self._blocks[conn].pop()
        return ROLLBACK if failed else end

    def _called(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and not self._has_user_run and is_foreign(frame.f_code.co_filename):
            self._has_user_run = True
            if self.crash_at == FIRST_CALL:
                self._die()

    def _users_line(self) -> str | None:
        """The innermost line of the user's own files; else of an installed package of theirs."""
        installed = None
        frame = sys._getframe() if self.ends_at is not None else None
        while frame is not None and frame.f_code is not self.ends_at:
            file = frame.f_code.co_filename
            if is_foreign(file):
                line = f"{Path(file).name}:{frame.f_lineno} in {frame.f_code.co_name}"
                if not file.startswith(_INSTALLED):
                    return line
                installed = installed or line
            frame = frame.f_back
        return installed


@cache
def is_foreign(file: str) -> bool:
    """Whether a file may hold code of the user: it is neither Python's nor of Milepost."""
    if file.startswith("<") or file.startswith(_OURS):
        return False
    return file.startswith(_INSTALLED) or not file.startswith(_STANDARD)


def _query_text(query: Any) -> str:
    if isinstance(query, bytes):
        return plain_text(query.decode(errors="replace"))
    if isinstance(query, Composable):
        return plain_text(query.as_string(None))
    return plain_text(str(query))


def _shut_down(conn: Connection | AsyncConnection) -> None:
    """As by the network: the server rolls back, and libpq finds out when it uses the connection."""
    with socket.socket(fileno=os.dup(conn.pgconn.socket)) as shared:
        shared.shutdown(socket.SHUT_RDWR)


def _cut(conn: Connection | AsyncConnection) -> None:
    """The connection is gone, and with it the answer."""
    conn.pgconn.finish()
    raise psycopg.OperationalError(
        "server closed the connection unexpectedly (cut by milepost.testing)"
    )
