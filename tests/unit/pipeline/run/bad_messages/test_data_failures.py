"""Which failures may be a message's. Everything that is not listed is not."""

from __future__ import annotations

import adbc_driver_manager as adbc
import psycopg
import pytest
from psycopg import errors as pg
from pyspark.errors import AnalysisException, PySparkException, PythonException

from milepost.errors import (
    ChannelFull,
    CompetingPipeline,
    InvalidOutput,
    PayloadTooLarge,
    StagingLost,
    UnreadableMessage,
)
from milepost.pipeline.run.bad_messages.data_failures import cause_of, is_of_data
from milepost.records import Position


class BadOrder(Exception):
    """Of the application, as Python names it in a traceback."""


class ServiceDown(OSError):
    pass


def application(_messages: object) -> None: ...


PLACE = "(app.py, line 7, in parse: raise)"


def in_worker(line: str, before: str = "") -> PythonException:
    """As Spark passes it on."""
    frames = '  File "app.py", line 7, in parse\n    raise\n'
    return PythonException(f"An exception was thrown:\n{before}{HEADER}{frames}{line}\n")


HEADER = "Traceback (most recent call last):\n"
CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
OWN = f"{__name__}.BadOrder"


def adbc_error(sqlstate: str | None) -> adbc.Error:
    return adbc.DataError("refused", status_code=adbc.AdbcStatusCode.IO, sqlstate=sqlstate)


def invalid(cause: Exception | None) -> InvalidOutput:
    error = InvalidOutput("p", "total", "is null in some row.")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        pg.NumericValueOutOfRange("integer out of range"),
        pg.CharacterNotInRepertoire("0x00"),
        pg.UntranslatableCharacter("\\u0000"),
        pg.InvalidTextRepresentation("not JSON"),
        pg.UniqueViolation("twice"),
        pg.ProgramLimitExceeded("index row size"),
        adbc_error("22021"),
        invalid(pg.NotNullViolation("null")),
        invalid(pg.InvalidTextRepresentation("not JSON")),
        PayloadTooLarge("2 MB"),
        UnreadableMessage(Position(0, 1), "infinity"),
        in_worker("ValueError: a bad order"),
        in_worker("KeyError: 'total'"),
        in_worker("json.decoder.JSONDecodeError: Expecting value"),
        in_worker("decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]"),
        in_worker("ZeroDivisionError: division by zero"),
        in_worker("AssertionError"),
        in_worker("RuntimeError: a bad order"),
        in_worker("Exception: a bad order"),
        in_worker(f"{OWN}: no total"),
        in_worker("milepost.errors.UnreadableMessage: The message at 0:1"),
        in_worker("adbc_driver_manager.DataError: IO: [libpq] ERROR: 0x00. SQLSTATE: 22021"),
        in_worker("adbc_driver_manager.DataError: 0x00. SQLSTATE: 22021\n SQLSTATE: 38000"),
        in_worker("ValueError: a bad order", f"{HEADER}OSError: before\n{CAUSE}"),
        in_worker("ValueError: remote said\nTraceback (most recent call last):\nOSError: x"),
    ],
    ids=str,
)
def test_what_a_message_can_cause(error: Exception) -> None:
    assert is_of_data(error, application)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("the connection is closed"),
        pg.AdminShutdown("terminating connection"),
        pg.DiskFull("no space left"),
        pg.OutOfMemory("memory"),
        pg.QueryCanceled("cancelled"),
        pg.LockNotAvailable("lock"),
        pg.DeadlockDetected("deadlock"),
        pg.SerializationFailure("serialization"),
        pg.InsufficientPrivilege("denied"),
        pg.UndefinedTable("dropped"),
        pg.UndefinedColumn("altered"),
        pg.CardinalityViolation("a key comes twice"),
        pg.ForeignKeyViolation("the other row is not there, or not yet"),
        pg.CheckViolation("no partition of relation found for row"),
        pg.NotNullViolation("of a column that the output does not have"),
        pg.SequenceGeneratorLimitExceeded("no more numbers"),
        pg.BadCopyFileFormat("binary"),
        adbc_error("57P01"),
        adbc_error(None),
        invalid(None),
        invalid(pg.CardinalityViolation("a key comes twice")),
        StagingLost("gone"),
        ChannelFull("full"),
        CompetingPipeline("p", "me", "other", "further"),
        AnalysisException("[UNRESOLVED_COLUMN] totl"),
        PySparkException("Job aborted due to stage failure: ExecutorLostFailure"),
        in_worker("MemoryError"),
        in_worker("OSError: [Errno 28] No space left on device"),
        in_worker("ConnectionRefusedError: [Errno 111]"),
        in_worker("TimeoutError: the model does not answer"),
        in_worker("ModuleNotFoundError: No module named 'model'"),
        in_worker("RuntimeError: can't start new thread"),
        in_worker("psycopg.OperationalError: server closed the connection"),
        in_worker("some.library.RemoteError: ValueError: is not known here"),
        in_worker(f"{__name__}.ServiceDown: cannot be reached"),
        in_worker("adbc_driver_manager.OperationalError: IO: [libpq] terminating"),
        in_worker("adbc_driver_manager.InternalError: IO: full. SQLSTATE: 53100"),
        in_worker("milepost.errors.ArchiveFileMissing: the file is not there"),
        PythonException("Python worker exited unexpectedly (crashed)"),
        ValueError("of the function itself, on the driver"),
        ArithmeticError("of the function itself, on the driver"),
        MemoryError(),
        OSError("disk"),
    ],
    ids=str,
)
def test_what_is_never_a_messages_fault(error: Exception) -> None:
    assert not is_of_data(error, application)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (in_worker("ValueError: a bad order\nwith details"), f"ValueError: a bad order {PLACE}"),
        (in_worker("AssertionError"), f"AssertionError {PLACE}"),
        (invalid(None), invalid(None).problem.rstrip(".")),
        (psycopg.DataError("one\ntwo"), "one"),
        (
            in_worker(
                "adbc_driver_manager.DataError: INVALID_DATA: [libpq] Failed to execute COPY: "
                "PGRES_FATAL_ERROR ERROR:  no such byte: 0x00\nCONTEXT: COPY. SQLSTATE: 22021"
            ),
            "no such byte: 0x00",
        ),
    ],
)
def test_its_cause_is_one_line(error: Exception, cause: str) -> None:
    assert cause_of(error) == cause
