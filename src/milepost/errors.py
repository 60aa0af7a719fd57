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
            "pairs. In a URL, write @ : / in a password as %40 %3A %2F. Look at MILEPOST_URL or "
            "at the url that was passed."
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


class InvalidJob(MilepostError):
    """A job that cannot be put; raised before anything is written."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"The job cannot be put: {field} {reason}")


class ChannelFull(MilepostError):
    """A put would exceed the `max_size` of its channel; nothing was put."""

    sqlstate = "MP005"


class UnsafeTake(MilepostError):
    """Taking jobs above READ COMMITTED, where the limits of channels would not hold."""

    sqlstate = "MP006"


class UnreadableJson(MilepostError):
    """A message, appended by plain SQL, whose JSON Python cannot hold."""

    def __init__(self) -> None:
        super().__init__(
            "A message's JSON is nested deeper than Python can read (some 1,000 levels). Find it "
            "with: select position from milepost.read(...), and rewrite its data in SQL."
        )


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


class CommitterClosed(MilepostError):
    """A message was offered to a committer that is closed."""


class ProcessorError(MilepostError):
    """The base of what ends or interrupts a processor; names it."""

    def __init__(self, processor: str, message: str) -> None:
        self.processor = processor
        super().__init__(f"Processor {processor!r}: {message}")


class CompetingInstance(ProcessorError):
    """Another instance under the same name is ahead (`on_conflict="stop"`)."""

    def __init__(self, processor: str, owner: str, other: str | None, answer: str) -> None:
        self.owner, self.other, self.answer = owner, other, answer
        super().__init__(
            processor,
            f"{owner} found its checkpoint moved by {other or 'somebody'} (answer: {answer}) and "
            "stops; its effects were rolled back. Run one instance, or leave on_conflict at "
            "'standby'.",
        )


class HandlerFailed(ProcessorError):
    """A handler failed on one message, through all its retries (`on_failure="stop"`)."""

    def __init__(self, processor: str, position: str, attempts: int, cause: str) -> None:
        self.position, self.attempts, self.cause = position, attempts, cause
        super().__init__(
            processor,
            f"the handler failed {attempts} times on the message at {position}: {cause}. The "
            "checkpoint stands before it. Mend the handler and start again, or set the message "
            f"aside: milepost processors skip {processor}",
        )


class UnknownProcessor(MilepostError):
    """No processor (nor worker, where both were asked for) of that name."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        there_are = ", ".join(known) or "none"
        super().__init__(f"There is no processor {name!r}. There are: {there_are}.")


class WaitTimedOut(ProcessorError):
    """`wait_for` gave up before the processor had reached the position."""


class StopTimedOut(MilepostError):
    """A processor's batch did not end within the limit after a stop was asked for."""


class NothingToSkip(ProcessorError):
    """`skip` found no message before which the processor stands."""

    def __init__(self, processor: str) -> None:
        super().__init__(processor, "there is no message to skip: it has caught up, or never ran.")


class UnknownDeadLetter(MilepostError):
    """No dead letter of that id."""

    def __init__(self, id_: int) -> None:
        self.id = id_
        super().__init__(f"There is no dead letter {id_}. See: milepost dead-letters list")


class UnknownJob(MilepostError):
    """No job of that id."""

    def __init__(self, id_: int) -> None:
        self.id = id_
        super().__init__(f"There is no job {id_}. See: milepost queue list")


class AppNotFound(MilepostError):
    """`milepost run app:mp` could not find the application."""
