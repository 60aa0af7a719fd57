"""Django's connection to a handler's transaction: a DatabaseWrapper that has borrowed the psycopg
connection of a processor or worker.

For Django it is inside an `atomic()` block that never ends: `atomic()` makes savepoints, and what
would end the transaction is refused. Its cursors are Django's, with Django's converters. They are
set for each cursor and not on the connection, whose other user reads plain psycopg rows.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.postgresql.base import ServerSideCursor
from django.db.backends.postgresql.psycopg_any import get_adapters_template
from django.db.backends.signals import connection_created
from django.db.transaction import Atomic
from psycopg.pq import Format
from psycopg.rows import tuple_row
from psycopg.types.range import Range

from milepost import sql
from milepost.errors import DjangoCallRefused, DjangoRollbackWanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.db import Connection

_CONVERTED = ("jsonb", "inet", "cidr", "timestamptz")  # the types that Django reads in its own way


class Borrowed:
    """What a handler's wrapper does in another way than the wrapper of the user's backend, which is
    its other base class."""

    connection: Connection | None
    refused: DjangoCallRefused | None = None  # the first call that was, also if it was caught

    def begin(self: Any, conn: Connection) -> None:
        """In the transaction that is open on the connection."""
        self.connection, self.refused = conn, None
        self.autocommit, self.in_atomic_block, self.commit_on_exit = False, True, True
        # Like an outermost block: `atomic(durable=True)` is refused inside.
        self.atomic_blocks = [Atomic(self.alias, True, False)]
        self.savepoint_ids: list[str] = []
        self.run_on_commit: list[Any] = []
        self.needs_rollback, self.rollback_exc = False, None
        if conn.info.parameter_status("TimeZone") != self.timezone_name:
            conn.execute(sql.query("session_time_zone"), {"name": self.timezone_name})
        connection_created.send(sender=type(self), connection=self)

    def end(self) -> None:
        """Whoever still has the wrapper does not reach the connection any more."""
        self.connection = None

    def refuse_ended(self: Any) -> None:
        """After the handler has returned: what Django would have rolled back must not commit."""
        if self.refused is not None:
            raise self.refused
        if self.needs_rollback:
            raise DjangoRollbackWanted(self.alias) from self.rollback_exc

    def callbacks(self: Any) -> list[Callable[[], Any]]:
        """Of `transaction.on_commit`, without those of savepoints that were rolled back."""
        return [function for _savepoints, function, _is_robust in self.run_on_commit]

    def create_cursor(self: Any, name: str | None = None) -> Any:
        cursor = self._new_cursor(name)
        template = get_adapters_template(settings.USE_TZ, self.timezone)
        for each in _CONVERTED:
            loader = template.get_loader(psycopg.adapters.types[each].oid, Format.TEXT)
            cursor.adapters.register_loader(each, loader)
        cursor.adapters.register_dumper(
            Range, template.get_dumper(Range, psycopg.adapt.PyFormat.TEXT)
        )
        return cursor

    def _new_cursor(self: Any, name: str | None) -> Any:
        if name is None:
            factory = self.get_connection_params()["cursor_factory"]
            return factory(self.connection, row_factory=tuple_row)
        binds_on_server = self.settings_dict["OPTIONS"].get("server_side_binding") is True
        kind = psycopg.ServerCursor if binds_on_server else ServerSideCursor
        return kind(self.connection, name, row_factory=tuple_row, scrollable=False, withhold=False)

    def commit(self) -> None:
        self._refuse("commit()")

    def rollback(self) -> None:
        self._refuse("rollback()")

    def set_autocommit(self, *_given: Any, **_named: Any) -> None:
        self._refuse("set_autocommit()")

    def close(self) -> None:
        self._refuse("close()")

    def connect(self) -> None:
        """Nobody may open another connection by it, when its transaction is over."""
        self._refuse("a query after the end of the handler's transaction")

    def close_if_unusable_or_obsolete(self) -> None:
        """Of `close_old_connections()`: this connection is not Django's to close."""

    def _refuse(self: Any, call: str) -> NoReturn:
        refused = DjangoCallRefused(call, self.alias)
        if self.connection is not None:
            self.refused = self.refused or refused
        raise refused


@cache
def _kind(backend: Any) -> Any:
    """The wrapper of the user's backend, whatever that is, with a borrowed connection."""
    return type(f"Borrowed{backend.__name__}", (Borrowed, backend), {})


def borrowed_wrapper(using: str) -> Any:
    """For the thread that makes it."""
    backend: Any = type(connections[using])
    return _kind(backend)(connections.settings[using], using)
