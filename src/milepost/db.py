"""The only module that connects to the server and translates its errors into ours."""

from __future__ import annotations

import os
import re
import socket
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import orjson
import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row, tuple_row
from psycopg.sql import SQL, Identifier, Literal

from milepost import errors, sql
from milepost.errors import (
    AppendConflict,
    ConnectionUnusable,
    DuplicateId,
    InvalidUrl,
    MilepostError,
    NotMigrated,
    NotOwner,
    NotPermitted,
    ReadOnlyServer,
    ReadOnlyTransaction,
    SchemaTooNew,
    ServerTooOld,
    UnfitPooler,
)
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[Any]"
AsyncConnection: TypeAlias = "psycopg.AsyncConnection[Any]"
Statement: TypeAlias = "tuple[bytes, dict[str, Any]]"  # a query and its parameters
Who: TypeAlias = "Connection | AsyncConnection | str"  # a connection, or the URL of one

_BY_SQLSTATE: dict[str, type[MilepostError]] = {
    kind.sqlstate: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MilepostError) and kind.sqlstate is not None
}
OLDEST_POSTGRES = 15
_ID_INDEX = "messages_id"
_READ_ONLY = "-c default_transaction_read_only=on"
CANCEL_SECONDS = 2.0
_LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE")
# Our own parameter: `?pgbouncer=true` or `&pgbouncer=true` in a URL, a word among key=value pairs.
# The first of several parameters is removed with the separator after it, so that the `?` stays.
_PGBOUNCER = re.compile(
    r"(?<=\?)pgbouncer=true(?:&|$)|&pgbouncer=true(?=&|$)|(?<!\S)pgbouncer=true(?!\S)"
)
# The errors of the server when our schema does not exist, or not completely.
_MISSING = (pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn, pg.InvalidSchemaName)


def connect(url: str, *, application_name: str = "milepost") -> Connection:
    """A new connection in autocommit mode and READ COMMITTED; `conn.transaction()` opens a
    transaction. With `pgbouncer=true` in the URL: as `connect_pooled`."""
    if leads_to_pgbouncer(url):
        return connect_pooled(url, application_name=application_name)
    conn = psycopg.connect(conninfo(url, application_name), autocommit=True)
    conn.execute(sql.query("session_read_committed"))
    return conn


def connect_pooled(url: str, *, application_name: str = "milepost") -> Connection:
    """As `connect`, without session state and without prepared statements, for PgBouncer's
    transaction pooling. The isolation level is the server's default."""
    return psycopg.connect(conninfo(url, application_name), autocommit=True, prepare_threshold=None)


async def connect_async(url: str, *, application_name: str = "milepost") -> AsyncConnection:
    """As `connect`, for coroutines, on the running event loop."""
    if leads_to_pgbouncer(url):
        return await connect_pooled_async(url, application_name=application_name)
    conn = await psycopg.AsyncConnection.connect(conninfo(url, application_name), autocommit=True)
    await conn.execute(sql.query("session_read_committed"))
    return conn


async def connect_pooled_async(url: str, *, application_name: str) -> AsyncConnection:
    info = conninfo(url, application_name)
    return await psycopg.AsyncConnection.connect(info, autocommit=True, prepare_threshold=None)


def is_pooled(conn: Connection | AsyncConnection) -> bool:
    """Whether each transaction may run in a different session of the server. This psycopg setting
    marks a connection through a pooler, here and in programs that pass us a connection."""
    return conn.prepare_threshold is None


def detect_dead_peers(conn: Connection) -> bool:
    """Let the server detect that we are gone, and release the locks of our transaction. A pooler
    does this itself: it ends the server's session with ours. False: nothing was set."""
    if is_pooled(conn):
        return False
    try:
        conn.execute(sql.query("session_keepalives"))
    except pg.InvalidParameterValue:  # on platforms without this setting
        return False
    return True


async def detect_dead_peers_async(conn: AsyncConnection) -> bool:
    if is_pooled(conn):
        return False
    try:
        await conn.execute(sql.query("session_keepalives"))
    except pg.InvalidParameterValue:
        return False
    return True


@dataclass(frozen=True, slots=True)
class SessionReset:
    """Leaves nothing of what a handler has set for its session, and restores what is ours.

    `name`: of the application; None through a pooler, where the session is not ours and has nothing
    to restore. `has_keep_alives`: whether `detect_dead_peers` could set them. `keeps_locks`:
    advisory locks of the session stay, because some are ours."""

    name: str | None
    has_keep_alives: bool = True
    keeps_locks: bool = False

    def parameters(self) -> dict[str, Any]:
        """For a statement that resets the session beside its own work."""
        return {
            "resets": True,
            "reset_name": self.name,
            "has_keep_alives": self.has_keep_alives,
            "keeps_locks": self.keeps_locks,
        }

    def script(self, schema: str) -> bytes:
        """For itself, whatever role the session has now."""
        return _resetting(self, schema)


NO_RESET: dict[str, Any] = {
    "resets": False, "reset_name": None, "has_keep_alives": False, "keeps_locks": False
}  # fmt: skip


@cache
def _resetting(wanted: SessionReset, schema: str) -> bytes:
    """With literals: a message with several statements has no parameters."""
    text = sql.query("session_reset", schema)
    for name, value in wanted.parameters().items():
        text = text.replace(f"%({name})s".encode(), Literal(value).as_bytes(None))
    return text


def forget_prepared(conn: Connection) -> None:
    """What a handler has prepared by name, in SQL."""
    for (name,) in plain(conn).execute(sql.query("session_prepared")).fetchall():
        conn.execute(SQL("deallocate {}").format(Identifier(name)))


def break_connection(conn: Connection) -> None:
    """End it from outside, while another thread may be using it: the server rolls back, and that
    thread gets an error. Its socket is shut down, not closed: that is left to the thread."""
    with suppress(psycopg.Error):
        conn.cancel_safe(timeout=CANCEL_SECONDS)
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(conn.fileno())) as peer:
        peer.shutdown(socket.SHUT_RDWR)


def read_only(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """The same database, in sessions whose transactions are read-only."""
    parts = conninfo_to_dict(conninfo(url))
    given = parts.pop("options", None) or environ.get("PGOPTIONS", "")
    return make_conninfo("", **parts, options=f"{given} {_READ_ONLY}".strip())


def leads_to_pgbouncer(url: str) -> bool:
    return _PGBOUNCER.search(url) is not None


def conninfo(url: str, application_name: str = "milepost") -> str:
    """The URL for libpq, checked and completed, without our own `pgbouncer=true`. The error of
    libpq shows a URL that it cannot parse, with the password, hence `from None`."""
    known = _PGBOUNCER.sub("", url)
    try:
        complete = make_conninfo(known, fallback_application_name=application_name)
    except psycopg.ProgrammingError:
        raise InvalidUrl from None
    if _is_ambiguous(known, conninfo_to_dict(complete)):
        raise InvalidUrl
    return complete


def _is_ambiguous(url: str, parts: Mapping[str, Any]) -> bool:
    """libpq ends a password at an unescaped @ or /. It takes the rest as a host, a port or a
    database, and would show it in its error."""
    ports = str(parts.get("port") or "").split(",")
    # The first character of a host may be @: an abstract socket.
    misplaced = str(parts.get("dbname") or "") + str(parts.get("host") or "")[1:]
    return ("://" in url and "@" in misplaced) or any(p and not p.isdigit() for p in ports)


def environment_url(environ: Mapping[str, str]) -> str | None:
    """MILEPOST_URL; else an empty string if PG* variables are set (libpq reads them); else None."""
    if url := environ.get("MILEPOST_URL"):
        return url
    return "" if any(environ.get(name) for name in _LIBPQ_VARIABLES) else None


@contextmanager
def translated(
    schema: str, activity: sql.Activity | None = None, who: Who | None = None
) -> Iterator[None]:
    """Raise our errors instead of the server's, where we have one. `activity` and `who` are as in
    `acting`, for statements whose caller does not know them. A connection as `who` also gives the
    error details that only its session knows."""
    try:
        yield
    except psycopg.Error as exc:
        ours = translate(exc, schema, who)
        if ours is None:
            raise
        if isinstance(ours, NotPermitted) and who is not None:
            _complete(ours, who, activity)
        raise ours from exc


@contextmanager
def acting(who: Who, activity: sql.Activity | None = None) -> Iterator[None]:
    """Add the role and the activity to the error of a missing privilege. The innermost block that
    knows them counts."""
    try:
        yield
    except NotPermitted as exc:
        _complete(exc, who, activity)
        raise


@contextmanager
def owning(conn: Connection, schema: str) -> Iterator[None]:
    """For what only the owner of the schema may do, and what cannot be granted."""
    try:
        yield
    except NotPermitted as exc:
        raise NotOwner(exc.what, schema, _role_of(conn)) from exc
    except pg.InsufficientPrivilege as exc:
        raise NotOwner(exc.diag.message_primary or str(exc), schema, _role_of(conn)) from exc


def _complete(error: NotPermitted, who: Who, activity: sql.Activity | None) -> None:
    error.role = error.role or _role_of(who)
    error.activity = error.activity or activity


def _role_of(who: Who) -> str | None:
    """The role of a connection or a URL, else the default of libpq. None: not known."""
    if not isinstance(who, str):
        return None if who.closed else who.info.user
    parts = conninfo_to_dict(conninfo(who))
    if "user" in parts or "service" in parts:
        user = parts.get("user")
        return None if user is None else str(user)
    defaults = {option.keyword: option.val for option in psycopg.pq.Conninfo.get_defaults()}
    default = defaults.get(b"user")
    return None if default is None else default.decode()


def translate(exc: psycopg.Error, schema: str, who: Who | None = None) -> MilepostError | None:
    kind = _BY_SQLSTATE.get(exc.sqlstate or "")
    if kind is AppendConflict:
        return _append_conflict(exc)
    if kind is not None:
        return kind(_with_hint(exc))
    if isinstance(exc, _MISSING) and schema in str(exc):
        return NotMigrated(schema, None, sql.migrations()[-1].number)
    if isinstance(exc, pg.UniqueViolation) and exc.diag.constraint_name == _ID_INDEX:
        return DuplicateId(f"{exc.diag.message_detail}")
    if isinstance(exc, pg.InsufficientPrivilege):
        return NotPermitted(exc.diag.message_primary or str(exc), schema)
    if isinstance(exc, pg.ReadOnlySqlTransaction):
        return _read_only(None if isinstance(who, str) else who)
    if isinstance(exc, pg.InFailedSqlTransaction):
        return failed_transaction()
    return _unfit_pooler(exc)


def _append_conflict(exc: psycopg.Error) -> AppendConflict:
    """Its facts are in the detail: a function in SQL cannot raise anything but text."""
    facts = orjson.loads(exc.diag.message_detail or "")
    positions = [Position.parse(position) for position in facts["positions"]]
    return AppendConflict(facts["key"], Position.parse(facts["after"]), positions)


def _read_only(conn: Connection | AsyncConnection | None) -> ReadOnlyServer | ReadOnlyTransaction:
    """The server's error is the same in all cases. It reports both settings to its clients; a
    pooler may not pass them on."""
    is_standby, is_default = (
        None if conn is None else conn.info.parameter_status(name)
        for name in ("in_hot_standby", "default_transaction_read_only")
    )
    if is_standby == "on":
        return ReadOnlyServer(
            "The server is a standby, which is read-only: nothing was written. Connect to the "
            "primary."
        )
    if is_default == "on":
        return ReadOnlyServer(
            "Transactions are read-only here (default_transaction_read_only is on, for the server, "
            "the database, the role or this session): nothing was written. Connect to the primary, "
            "or turn the setting off."
        )
    if is_standby == is_default == "off":
        return ReadOnlyTransaction(
            "The transaction is read-only (BEGIN READ ONLY, or read_only of the connection), the "
            "server is not: nothing was written. Roll it back and begin one that may write."
        )
    return ReadOnlyServer(
        "The server is read-only (a standby, or default_transaction_read_only), or the transaction "
        "was begun read-only: nothing was written. Connect to the primary, or begin a transaction "
        "that may write."
    )


def _unfit_pooler(exc: psycopg.Error) -> UnfitPooler | None:
    if isinstance(exc, pg.InvalidSqlStatementName | pg.DuplicatePreparedStatement):
        return UnfitPooler(
            "A pooler (PgBouncer in transaction mode?) switched to another session of the server, "
            f"without our prepared statements: {exc.diag.message_primary}",
            "Add pgbouncer=true to the URL, as in postgresql://host:6432/database?pgbouncer=true, "
            "or connect directly to the server.",
        )
    if isinstance(exc, pg.ProtocolViolation) and "statement pooling" in str(exc):
        return UnfitPooler(
            "PgBouncer is in statement mode, which has no transactions: nothing was written",
            "Set pool_mode = transaction (or session) for this database, or connect directly to "
            "the server.",
        )
    return None


def failed_transaction() -> ConnectionUnusable:
    return ConnectionUnusable(
        "The transaction has already failed: nothing was written. Roll it back and begin again."
    )


def check_usable(conn: Connection | AsyncConnection) -> None:
    """Refuse a closed connection or a failed transaction before anything is sent."""
    if not hasattr(conn, "closed"):
        raise TypeError(
            f"The first argument is a {type(conn).__name__}: expected a psycopg connection. "
            "Nothing was written. Pass the connection in whose transaction it belongs, as in "
            "mp.put(conn, job)."
        )
    if conn.closed:
        raise ConnectionUnusable("The connection is closed: nothing was written. Open a new one.")
    if conn.info.transaction_status == TransactionStatus.INERROR:
        raise failed_transaction()


def check_server(conn: Connection) -> None:
    """Refuse a server that is too old for our SQL."""
    if conn.info.server_version < OLDEST_POSTGRES * 10_000:
        major, minor = divmod(conn.info.server_version, 10_000)
        raise ServerTooOld(f"{major}.{minor}", OLDEST_POSTGRES)


def check_schema(conn: Connection, schema: str) -> None:
    """Refuse a schema that is missing, older than this code, or too new for it."""
    needed = sql.migrations()[-1].number
    found = applied_number(conn, schema)
    if found is None or found < needed:
        raise NotMigrated(schema, found, needed)
    if found > needed and not may_run_on(conn, schema, needed):
        raise SchemaTooNew(schema, found, needed)


def may_run_on(conn: Connection, schema: str, known: int) -> bool:
    """Whether code that knows the first `known` migrations may run on a schema that has more:
    that of the next release, during an upgrade."""
    return oldest_code(conn, schema) <= known


def oldest_code(conn: Connection, schema: str) -> int:
    """The last migration that code must know to run on this schema; 0 before migration 10."""
    return int(one(conn.execute(sql.query("oldest_code", schema)).fetchone())[0])


def applied_number(conn: Connection, schema: str) -> int | None:
    """The number of the last applied migration; None if there is no Milepost schema."""
    for query in ("applied_number", "applied_number_before_10"):
        try:
            with translated(schema), conn.transaction():
                row = conn.execute(sql.query(query, schema)).fetchone()
        except NotMigrated:
            continue
        return None if row is None else row[0]
    return None


def plain(conn: Connection) -> psycopg.Cursor[tuple[Any, ...]]:
    """A cursor with tuple rows, on a connection of the caller that may be set to another kind."""
    return conn.cursor(row_factory=tuple_row)


def plain_async(conn: AsyncConnection) -> psycopg.AsyncCursor[tuple[Any, ...]]:
    return conn.cursor(row_factory=tuple_row)


def one(row: Any) -> Any:
    """The row of a query that always returns one."""
    if row is None:
        raise RuntimeError("A query that always returns one row returned none.")
    return row


def _with_hint(exc: psycopg.Error) -> str:
    message = exc.diag.message_primary or str(exc)
    hint = exc.diag.message_hint
    return f"{message}. {hint}" if hint else message


def fetch_all(conn: Connection, schema: str, query: str, **parameters: Any) -> list[Any]:
    """The rows of a named query, with our errors."""
    with translated(schema, who=conn):
        return conn.execute(sql.query(query, schema), parameters).fetchall()


def fetch_one(conn: Connection, schema: str, query: str, **parameters: Any) -> Any:
    """The row of a named query that always answers with one."""
    with translated(schema, who=conn):
        return one(conn.execute(sql.query(query, schema), parameters).fetchone())


def run(conn: Connection, schema: str, query: str, **parameters: Any) -> int:
    """Run a named query; how many rows it changed."""
    with translated(schema, who=conn):
        return conn.execute(sql.query(query, schema), parameters).rowcount


def fetch_records(
    conn: Connection, schema: str, query: str, record: type[T], /, **parameters: Any
) -> list[T]:
    """The rows of a named query, as records whose fields are called like its columns."""
    with translated(schema, who=conn), conn.cursor(row_factory=class_row(record)) as cursor:
        return cursor.execute(sql.query(query, schema), parameters).fetchall()
