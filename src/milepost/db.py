"""The only module that connects to the server and translates its errors into ours."""

from __future__ import annotations

import os
import re
import socket
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

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
    BeyondHorizon,
    ConnectionUnusable,
    DuplicateId,
    InvalidUrl,
    MilepostError,
    NotMigrated,
    NotOwner,
    NotPermitted,
    PositionLost,
    RangeRemoved,
    ReadOnlyServer,
    ReadOnlyTransaction,
    SchemaTooNew,
    ServerTooOld,
    UnfitPooler,
)
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[Any]"
AsyncConnection: TypeAlias = "psycopg.AsyncConnection[Any]"
Statement: TypeAlias = "tuple[bytes, dict[str, Any]]"  # a query and its parameters
# A URL, or what returns it whenever a connection is opened: a framework may rename its database.
UrlSource: TypeAlias = "str | Callable[[], str]"
# A connection, what another driver's connection knows of its session, or the URL of one.
Who: TypeAlias = "Connection | AsyncConnection | Info | str"

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
_DRIVER = re.compile(r"\s*postgres(?:ql)?(\+\w+):", re.IGNORECASE)
# What SQLAlchemy reads in a URL, as postgresql+asyncpg://.
_DRIVER = re.compile(r"\s*postgres(?:ql)?(\+\w+):", re.IGNORECASE)
_PGBOUNCER = re.compile(
    r"(?<=\?)pgbouncer=true(?:&|$)|&pgbouncer=true(?=&|$)|(?<!\S)pgbouncer=true(?!\S)"
)
# The errors of the server when our schema does not exist, or not completely.
_MISSING = frozenset(
    kind.sqlstate
    for kind in (pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn, pg.InvalidSchemaName)
)


class Info(Protocol):
    """What a session knows of itself: `conn.info` of psycopg and of psycopg2."""

    @property
    def user(self) -> str | None: ...
    def parameter_status(self, name: str, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ServerError:
    """What the server has said, in the error of any driver."""

    sqlstate: str
    message: str
    hint: str | None
    detail: str | None
    constraint: str | None
    whole: str

    @classmethod
    def of(cls, exc: BaseException) -> ServerError:
        """psycopg2 calls the SQLSTATE `pgcode`; asyncpg has no `diag`."""
        sqlstate = getattr(exc, "sqlstate", None) or getattr(exc, "pgcode", None) or ""
        diag = getattr(exc, "diag", None)
        source, prefix = (exc, "") if diag is None else (diag, "message_")
        message = getattr(source, "message" if diag is None else "message_primary", None)
        hint, detail = (getattr(source, f"{prefix}{name}", None) for name in ("hint", "detail"))
        constraint = getattr(source, "constraint_name", None)
        return cls(sqlstate, message or str(exc), hint, detail, constraint, str(exc))

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


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
    if (driver := _DRIVER.match(known)) is not None:
        raise InvalidUrl(driver[1])
    try:
        complete = make_conninfo(known, fallback_application_name=application_name)
    except psycopg.ProgrammingError:
        raise InvalidUrl() from None
    if _is_ambiguous(known, conninfo_to_dict(complete)):
        raise InvalidUrl()
    return complete


def _is_ambiguous(url: str, parts: Mapping[str, Any]) -> bool:
    """libpq ends a password at an unescaped @ or /. It takes the rest as a host, a port or a
    database, and would show it in its error."""
    ports = str(parts.get("port") or "").split(",")
    # The first character of a host may be @: an abstract socket.
    misplaced = str(parts.get("dbname") or "") + str(parts.get("host") or "")[1:]
    return ("://" in url and "@" in misplaced) or any(p and not p.isdigit() for p in ports)


def url_of(source: UrlSource) -> str:
    return source if isinstance(source, str) else source()


def environment_url(environ: Mapping[str, str]) -> str | None:
    """MILEPOST_URL; else an empty string if PG* variables are set (libpq reads them); else None."""
    if url := environ.get("MILEPOST_URL"):
        return url
    return "" if any(environ.get(name) for name in _LIBPQ_VARIABLES) else None


@contextmanager
def translated(
    schema: str,
    activity: sql.Activity | None = None,
    who: Who | None = None,
    *,
    errors: type[Exception] = psycopg.Error,
    of_driver: Callable[[Any], BaseException] = lambda exc: exc,
) -> Iterator[None]:
    """Raise our errors instead of the server's, where we have one. `activity` and `who` are as in
    `acting`, for statements whose caller does not know them. A connection as `who` also gives the
    error details that only its session knows. `errors` are those of another driver; where a library
    wraps them, `of_driver` finds what it has wrapped."""
    try:
        yield
    except errors as exc:
        ours = translate(of_driver(exc), schema, who)
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


def _info(who: Who) -> Info | None:
    """None: not known."""
    if isinstance(who, psycopg.BaseConnection):
        return None if who.closed else who.info
    return None if isinstance(who, str) else who


def _role_of(who: Who) -> str | None:
    """The role of a connection or a URL, else the default of libpq. None: not known."""
    if not isinstance(who, str):
        return None if (info := _info(who)) is None else info.user
    parts = conninfo_to_dict(conninfo(who))
    if "user" in parts or "service" in parts:
        user = parts.get("user")
        return None if user is None else str(user)
    defaults = {option.keyword: option.val for option in psycopg.pq.Conninfo.get_defaults()}
    default = defaults.get(b"user")
    return None if default is None else default.decode()


def translate(exc: BaseException, schema: str, who: Who | None = None) -> MilepostError | None:
    """Our error for that of a driver, psycopg's or another's; None if we have none."""
    error = ServerError.of(exc)
    kind = _BY_SQLSTATE.get(error.sqlstate)
    if kind is AppendConflict:
        return _append_conflict(error)
    if kind is not None:
        return _about_position(kind, error) or kind(str(error))
    if error.sqlstate in _MISSING and schema in error.whole:
        return NotMigrated(schema, None, sql.migrations()[-1].number)
    if error.sqlstate == pg.UniqueViolation.sqlstate and error.constraint == _ID_INDEX:
        return DuplicateId(f"{error.detail}")
    if error.sqlstate == pg.InsufficientPrivilege.sqlstate:
        return NotPermitted(error.message, schema)
    if error.sqlstate == pg.ReadOnlySqlTransaction.sqlstate:
        return _read_only(None if who is None else _info(who))
    if error.sqlstate == pg.InFailedSqlTransaction.sqlstate:
        return failed_transaction()
    return _unfit_pooler(exc)


def _append_conflict(error: ServerError) -> AppendConflict:
    """Its facts are in the detail: a function in SQL cannot raise anything but text."""
    facts = orjson.loads(error.detail or "")
    positions = [Position.parse(position) for position in facts["positions"]]
    return AppendConflict(facts["key"], Position.parse(facts["after"]), positions)


def _about_position(kind: type[MilepostError], error: ServerError) -> MilepostError | None:
    """None: it is about none."""
    if error.detail is None or not issubclass(kind, PositionLost | RangeRemoved | BeyondHorizon):
        return None
    facts = {name: Position.parse(text) for name, text in orjson.loads(error.detail).items()}
    return kind(**facts) if issubclass(kind, BeyondHorizon) else kind(str(error), **facts)


def _read_only(info: Info | None) -> ReadOnlyServer | ReadOnlyTransaction:
    """The server's error is the same in all cases. It reports both settings to its clients; a
    pooler may not pass them on."""
    is_standby, is_default = (
        None if info is None else info.parameter_status(name)
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


def _unfit_pooler(exc: BaseException) -> UnfitPooler | None:
    """For psycopg alone: other drivers have settings of their own for this."""
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


def closed_connection() -> ConnectionUnusable:
    return ConnectionUnusable("The connection is closed: nothing was written. Open a new one.")


def check_usable(conn: Connection | AsyncConnection) -> None:
    """Refuse a closed connection or a failed transaction before anything is sent."""
    if conn.closed:
        raise closed_connection()
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
    """The last migration that code must know to run on this schema."""
    return int(one(conn.execute(sql.query("oldest_code", schema)).fetchone())[0])


def applied_number(conn: Connection, schema: str) -> int | None:
    """The number of the last applied migration; None if there is no Milepost schema."""
    try:
        with translated(schema), conn.transaction():
            row = conn.execute(sql.query("applied_number", schema)).fetchone()
    except NotMigrated:
        return None
    return None if row is None else row[0]


def plain(conn: Connection, *, binary: bool = False) -> psycopg.Cursor[tuple[Any, ...]]:
    """A cursor with tuple rows, on a connection of the caller that may be set to another kind. One
    that puts the parameters into the query itself (Django's default), or takes `$1`, is not used:
    ours are `%(name)s`, and arrays are sent in binary."""
    if conn.cursor_factory is psycopg.Cursor or not _is_other(conn.cursor_factory):
        return conn.cursor(row_factory=tuple_row, binary=binary)
    cursor = psycopg.Cursor(conn, row_factory=tuple_row)
    cursor.format = psycopg.pq.Format(binary)
    return cursor


def plain_async(conn: AsyncConnection) -> psycopg.AsyncCursor[tuple[Any, ...]]:
    if conn.cursor_factory is psycopg.AsyncCursor or not _is_other(conn.cursor_factory):
        return conn.cursor(row_factory=tuple_row)
    return psycopg.AsyncCursor(conn, row_factory=tuple_row)


_OTHER_CURSORS = (
    psycopg.ClientCursor, psycopg.AsyncClientCursor, psycopg.RawCursor, psycopg.AsyncRawCursor
)  # fmt: skip


def _is_other(factory: object) -> bool:
    return isinstance(factory, type) and issubclass(factory, _OTHER_CURSORS)


def one(row: Any) -> Any:
    """The row of a query that always returns one."""
    if row is None:
        raise RuntimeError("A query that always returns one row returned none.")
    return row


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
