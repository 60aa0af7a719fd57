"""Every error Milepost raises: one base class, each error with its facts as attributes.

Errors that a SQL function raises carry their SQLSTATE here (class `MP`), so that `db.py` can
translate what the server said into the class that Python callers catch.
"""

from __future__ import annotations

from typing import ClassVar


class MilepostError(Exception):
    """The base of everything Milepost raises on purpose."""

    sqlstate: ClassVar[str | None] = None


class EmbeddedError(MilepostError):
    """The embedded PostgreSQL could not be started, reached or stopped."""


class InvalidUrl(MilepostError):
    """A database URL that cannot be parsed. Never shows the URL: it may hold a password."""

    def __init__(self) -> None:
        super().__init__(
            "The database URL cannot be parsed (it is not shown here, as it may hold a "
            "password). Expected: postgresql://user:password@host:port/database, or key=value "
            "pairs. Look at MILEPOST_URL or at the url that was passed."
        )


class InvalidSchemaName(MilepostError):
    """A schema name that is not a plain lower-case identifier."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        super().__init__(
            f"{schema!r} is not a usable schema name: take lower-case letters, digits and "
            "underscores, at most 48, not starting with a digit or with pg_."
        )


class NotMigrated(MilepostError):
    """The database has no Milepost schema, or an older one than this code needs."""

    def __init__(self, schema: str, found: int | None, needed: int) -> None:
        self.schema, self.found, self.needed = schema, found, needed
        state = "is not there" if found is None else f"is at migration {found}"
        option = "" if schema == "milepost" else f" --schema {schema}"
        super().__init__(
            f"The schema {schema!r} {state}; this version of Milepost needs migration {needed}. "
            f"Run: milepost migrate{option}"
        )


class SchemaTooNew(MilepostError):
    """The database was migrated by a newer Milepost than this one."""

    def __init__(self, schema: str, found: int, known: int) -> None:
        self.schema, self.found, self.known = schema, found, known
        super().__init__(
            f"The schema {schema!r} is at migration {found}, this version of Milepost knows only "
            f"{known}. Upgrade the package: pip install --upgrade milepost"
        )


class OrderIsFixed(MilepostError):
    """`migrate --order` asked for another order than the log was created with."""

    def __init__(self, schema: str, current: str, requested: str) -> None:
        self.schema, self.current, self.requested = schema, current, requested
        super().__init__(
            f"The log in schema {schema!r} was created in {current} order and keeps it; "
            f"{requested} order needs a log of its own: milepost migrate --schema OTHER "
            f"--order {requested}"
        )


class InvalidMessage(MilepostError):
    """A message that cannot be appended; raised before anything is written."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"The message cannot be appended: {field} {reason}")


class PayloadTooLarge(MilepostError):
    """Data and metadata of one message exceed the payload limit."""

    sqlstate = "MP004"


class InvalidPosition(MilepostError):
    """A text that is not a position."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is not a position: expected '42' or '17:42'.")


class ConnectionUnusable(MilepostError):
    """The connection handed in is closed, or its transaction has failed."""


class ReadOnlyServer(MilepostError):
    """The server or the transaction is read-only, so nothing can be appended."""


class UnsafeIsolation(MilepostError):
    """Reading above READ COMMITTED, where messages would be skipped."""

    sqlstate = "MP001"


class ReadOnStandby(MilepostError):
    """A log in append order was read on a standby."""

    sqlstate = "MP002"


class LogRestored(MilepostError):
    """The log was restored from another cluster and not rebased yet."""

    sqlstate = "MP003"
