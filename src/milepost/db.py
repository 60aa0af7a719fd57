"""The one module that knows how to connect, and what an error of the server means in our words."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from milepost import errors, sql
from milepost.errors import (
    ConnectionUnusable,
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

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
_LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE")
# Our own parameter: `?pgbouncer=true` or `&pgbouncer=true` in a URL, a word among key=value pairs.
# The first of several takes the separator behind it along, so that its `?` stays.
_PGBOUNCER = re.compile(
    r"(?<=\?)pgbouncer=true(?:&|$)|&pgbouncer=true(?=&|$)|(?<!\S)pgbouncer=true(?!\S)"
)
# What the server says when a statement of ours meets a schema that is not (fully) there.
_MISSING = (pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn, pg.InvalidSchemaName)


def connect(url: str, *, application_name: str = "milepost") -> Connection:
    """A new connection in autocommit mode and READ COMMITTED; `conn.transaction()` opens a
    transaction. Where the URL says `pgbouncer=true`, as `connect_pooled`."""
    if leads_to_pgbouncer(url):
        return connect_pooled(url, application_name=application_name)
    conn = psycopg.connect(conninfo(url, application_name), autocommit=True)
    conn.execute(sql.query("session_read_committed"))
    return conn


def connect_pooled(url: str, *, application_name: str = "milepost") -> Connection:
    """The same without session state and without prepared statements, for PgBouncer's transaction
    pooling. The isolation is the server's default."""
    return psycopg.connect(conninfo(url, application_name), autocommit=True, prepare_threshold=None)


async def connect_async(url: str, *, application_name: str = "milepost") -> AsyncConnection:
    """The same for coroutines, on the event loop that runs this."""
    if leads_to_pgbouncer(url):
        return await connect_pooled_async(url, application_name=application_name)
    conn = await psycopg.AsyncConnection.connect(conninfo(url, application_name), autocommit=True)
    await conn.execute(sql.query("session_read_committed"))
    return conn


async def connect_pooled_async(url: str, *, application_name: str) -> AsyncConnection:
    info = conninfo(url, application_name)
    return await psycopg.AsyncConnection.connect(info, autocommit=True, prepare_threshold=None)


def is_pooled(conn: Connection | AsyncConnection) -> bool:
    """Whether each transaction may meet another session of the server's. Whoever connects through
    a pooler tells psycopg so by this setting, here and in programs that bring a connection."""
    return conn.prepare_threshold is None


def detect_dead_peers(conn: Connection) -> None:
    """Let the server notice that we are gone, and free the locks of our transaction. Behind a
    pooler the pooler does: it ends the server's session with ours."""
    if is_pooled(conn):
        return
    with suppress(pg.InvalidParameterValue):  # on platforms that cannot watch a connection
        conn.execute(sql.query("session_keepalives"))


async def detect_dead_peers_async(conn: AsyncConnection) -> None:
    if is_pooled(conn):
        return
    with suppress(pg.InvalidParameterValue):
        await conn.execute(sql.query("session_keepalives"))


def leads_to_pgbouncer(url: str) -> bool:
    return _PGBOUNCER.search(url) is not None


def conninfo(url: str, application_name: str = "milepost") -> str:
    """The URL checked and completed, for libpq, which does not know `pgbouncer=true`. It quotes
    a URL it cannot parse, password and all, hence `from None`."""
    known = _PGBOUNCER.sub("", url)
    try:
        complete = make_conninfo(known, fallback_application_name=application_name)
    except psycopg.ProgrammingError:
        raise InvalidUrl from None
    if _is_ambiguous(known, conninfo_to_dict(complete)):
        raise InvalidUrl
    return complete


def _is_ambiguous(url: str, parts: Mapping[str, Any]) -> bool:
    """A password with a bare @ or / in it is cut there by libpq, which takes the rest for a
    host, a port or a database, and would show it in its error."""
    ports = str(parts.get("port") or "").split(",")
    # The first character of a host may be @: an abstract socket.
    misplaced = str(parts.get("dbname") or "") + str(parts.get("host") or "")[1:]
    return ("://" in url and "@" in misplaced) or any(p and not p.isdigit() for p in ports)


def environment_url(environ: Mapping[str, str]) -> str | None:
    """MILEPOST_URL, else empty (libpq reads its PG* variables), else none."""
    if url := environ.get("MILEPOST_URL"):
        return url
    return "" if any(environ.get(name) for name in _LIBPQ_VARIABLES) else None


@contextmanager
def translated(
    schema: str, activity: sql.Activity | None = None, who: Who | None = None
) -> Iterator[None]:
    """Our errors instead of the server's, where there is one of ours. `activity` and `who` are
    `acting`'s, for statements that are run where nobody else knows them. A connection also lets
    them say what only its session knows."""
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
    """Let the error of a missing privilege say who lacks it, and for what: whoever is nearest to
    the statement and knows."""
    try:
        yield
    except NotPermitted as exc:
        _complete(exc, who, activity)
        raise


@contextmanager
def owning(conn: Connection, schema: str) -> Iterator[None]:
    """For what only the owner of the schema may do, and nobody can be granted."""
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
    """Who connects: of a URL what it says, else what libpq takes. None where it cannot be told."""
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
    if kind is not None:
        return kind(_with_hint(exc))
    if isinstance(exc, _MISSING) and schema in str(exc):
        return NotMigrated(schema, None, sql.migrations()[-1].number)
    if isinstance(exc, pg.InsufficientPrivilege):
        return NotPermitted(exc.diag.message_primary or str(exc), schema)
    if isinstance(exc, pg.ReadOnlySqlTransaction):
        return _read_only(None if isinstance(who, str) else who)
    if isinstance(exc, pg.InFailedSqlTransaction):
        return failed_transaction()
    return _unfit_pooler(exc)


def _read_only(conn: Connection | AsyncConnection | None) -> ReadOnlyServer | ReadOnlyTransaction:
    """The server's error is the same for all of them. It reports both settings to its clients;
    a pooler may keep them to itself."""
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
            "A pooler (PgBouncer in transaction mode?) gave us another session of the server's, "
            f"without what we had prepared: {exc.diag.message_primary}",
            "Add pgbouncer=true to the URL, as in postgresql://host:6432/database?pgbouncer=true, "
            "or connect to the server itself.",
        )
    if isinstance(exc, pg.ProtocolViolation) and "statement pooling" in str(exc):
        return UnfitPooler(
            "PgBouncer is in statement mode, which has no transactions: nothing was written",
            "Set pool_mode = transaction (or session) for this database, or connect to the server "
            "itself.",
        )
    return None


def failed_transaction() -> ConnectionUnusable:
    return ConnectionUnusable(
        "The transaction has already failed: nothing was written. Roll it back and begin again."
    )


def check_usable(conn: Connection | AsyncConnection) -> None:
    """Refuse a closed connection or a failed transaction before anything is sent."""
    if conn.closed:
        raise ConnectionUnusable("The connection is closed: nothing was written. Open a new one.")
    if conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
        raise failed_transaction()


def check_server(conn: Connection) -> None:
    """Refuse a server that would fail on our SQL somewhere in its middle."""
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
    """Whether code that knows so many migrations may run on a schema that has more: that of the
    next release, during an upgrade."""
    return oldest_code(conn, schema) <= known


def oldest_code(conn: Connection, schema: str) -> int:
    """The last migration that code must know to run on this schema; 0 before migration 10."""
    return int(one(conn.execute(sql.query("oldest_code", schema)).fetchone())[0])


def applied_number(conn: Connection, schema: str) -> int | None:
    """The number of the last migration applied; None where Milepost has never been."""
    for query in ("applied_number", "applied_number_before_10"):
        try:
            with translated(schema), conn.transaction():
                row = conn.execute(sql.query(query, schema)).fetchone()
        except NotMigrated:
            continue
        return None if row is None else row[0]
    return None


def plain(conn: Connection) -> psycopg.Cursor[tuple[Any, ...]]:
    """Rows as we expect them on a connection that is somebody else's, who may want dicts."""
    return conn.cursor(row_factory=tuple_row)


def plain_async(conn: AsyncConnection) -> psycopg.AsyncCursor[tuple[Any, ...]]:
    return conn.cursor(row_factory=tuple_row)


def one(row: Any) -> Any:
    """The row of a query that always answers with one."""
    if row is None:
        raise RuntimeError("A query that always answers with one row answered with none.")
    return row


def _with_hint(exc: psycopg.Error) -> str:
    message = exc.diag.message_primary or str(exc)
    hint = exc.diag.message_hint
    return f"{message}. {hint}" if hint else message
