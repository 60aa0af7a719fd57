"""Whether a batch failed because of its messages. Pure.

A list of what counts, and nothing else does: where a server, an executor or a disk fails, messages
must not be skipped. What the list does not know stops the pipeline, as before.
"""

from __future__ import annotations

import builtins
import re
import sys
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as adbc
import psycopg
from psycopg import errors as pg
from pyspark.errors import PythonException

from milepost.errors import (
    InvalidOutput,
    PayloadTooLarge,
    ReservedChannel,
    UnreadableMessage,
    message_of,
)
from milepost.pipeline.spark.failures import condition_of, text_of
from milepost.pipeline.spark.tracebacks import Raised, raised_in_task

if TYPE_CHECKING:
    from collections.abc import Callable

# The server: data exceptions, constraints of the target, and a row or a key that is too long.
_DATA_CLASS = "22"
_DATA_STATES = ("23505", "23514", "23P01", "54000")
# An identity column that has no numbers left, and COPYs that are not in the server's format.
_OTHER_STATES = ("2200H", "22P03", "22P04")
# Spark: values for which an expression has no result.
_CONDITIONS = frozenset(
    {
        "ARITHMETIC_OVERFLOW",
        "BINARY_ARITHMETIC_OVERFLOW",
        "CANNOT_DECODE_URL",
        "CANNOT_PARSE_DECIMAL",
        "CANNOT_PARSE_INTERVAL",
        "CANNOT_PARSE_JSON_FIELD",
        "CANNOT_PARSE_TIME",
        "CANNOT_PARSE_TIMESTAMP",
        "CAST_INVALID_INPUT",
        "CAST_OVERFLOW",
        "COLLECTION_SIZE_LIMIT_EXCEEDED",
        "CONVERSION_INVALID_INPUT",
        "DATETIME_FIELD_OUT_OF_BOUNDS",
        "DATETIME_OVERFLOW",
        "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION",
        "DIVIDE_BY_ZERO",
        "DUPLICATED_MAP_KEY",
        "FAILED_EXECUTE_UDF",
        "FAILED_ROW_TO_JSON",
        "ILLEGAL_DAY_OF_WEEK",
        "INTERVAL_ARITHMETIC_OVERFLOW",
        "INTERVAL_DIVIDED_BY_ZERO",
        "INVALID_ARRAY_INDEX",
        "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
        "INVALID_BITMAP_POSITION",
        "INVALID_FRACTION_OF_SECOND",
        "INVALID_INDEX_OF_ZERO",
        "INVALID_INTERVAL_FORMAT",
        "INVALID_JSON_ROOT_FIELD",
        "INVALID_REGEXP_REPLACE",
        "INVALID_TIMEZONE",
        "INVALID_URL",
        "INVALID_UTF8_STRING",
        "INVALID_VARIANT_CAST",
        "INVALID_VARIANT_GET_PATH",
        "MALFORMED_CHARACTER_CODING",
        "MALFORMED_RECORD_IN_PARSING",
        "MALFORMED_VARIANT",
        "NOT_NULL_ASSERT_VIOLATION",
        "NULL_MAP_KEY",
        "NUMERIC_OUT_OF_SUPPORTED_RANGE",
        "NUMERIC_VALUE_OUT_OF_RANGE",
        "REMAINDER_BY_ZERO",
        "ROW_VALUE_IS_NULL",
        "USER_RAISED_EXCEPTION",  # raise_error(), also that of `content`
        "VARIANT_CONSTRUCTOR_SIZE_LIMIT",
        "VARIANT_DUPLICATE_KEY",
        "VARIANT_SIZE_LIMIT",
    }
)
# Python, in a function of the user on an executor: what a value can cause. Not OSError, which a
# service raises that cannot be reached, and not MemoryError.
_OF_VALUES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
_RAISED_AS_SUCH = (Exception, RuntimeError)  # themselves, and not classes of libraries
_NEVER = (OSError, MemoryError, ImportError)
_OF_THE_MACHINE = "can't start new thread"
_UNREADABLE = f"{UnreadableMessage.__module__}.{UnreadableMessage.__name__}"  # raised by a task
_ADBC = "adbc_driver_manager."
_SERVER_SAID = re.compile(r"\A.*?ERROR: +", re.DOTALL)  # the name of the error and of the call
_SQLSTATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
_SPARKS_STATE = "38000"  # Spark Connect adds it to what Python raised
_LONGEST = 500


def is_of_data(error: BaseException, function: Callable[..., Any] | None = None) -> bool:
    """Whether a message may be to blame: to be confirmed by trying it alone. `function`: the
    pipeline's, whose application may have exceptions of its own."""
    if isinstance(error, InvalidOutput):  # of some row, if the server has refused it
        cause = error.__cause__
        return isinstance(cause, pg.NotNullViolation) or (cause is not None and is_of_data(cause))
    if isinstance(error, PayloadTooLarge | ReservedChannel | UnreadableMessage):
        return True
    if isinstance(error, psycopg.Error):
        return _is_servers(error)
    if isinstance(error, adbc.Error):
        return _is_state_of_data(error.sqlstate)
    if (raised := _raised(error)) is not None:
        return _is_pythons(raised, _package(function))
    return condition_of(error) in _CONDITIONS


def cause_of(error: BaseException) -> str:
    """In one line, without stacks, with the user's line of code."""
    raised = _raised(error)
    if isinstance(error, InvalidOutput):
        text = error.problem
    elif isinstance(error, psycopg.Error) and error.diag.message_primary:
        text = error.diag.message_primary
    elif raised is None:
        text = message_of(error)
    else:
        text = ": ".join(part for part in (raised.class_name, raised.message) if part)
    if isinstance(error, adbc.Error) or text.startswith(_ADBC):
        text = _SERVER_SAID.sub("", text)
    first = text.strip().partition("\n")[0]
    cause = _SQLSTATE.sub("", first)[:_LONGEST].rstrip(". ")
    if raised is None or raised.place is None or raised.module.startswith(_ADBC):
        return cause
    return f"{cause} ({raised.place})"


def _is_servers(error: psycopg.Error) -> bool:
    """What the target lacks is not the data's: a partition for the row, or a default for a column
    that the output does not have (a null in one that it has is an InvalidOutput)."""
    if isinstance(error, pg.CheckViolation) and error.diag.constraint_name is None:
        return False
    return _is_state_of_data(error.sqlstate)


def _is_state_of_data(state: str | None) -> bool:
    if state is None or state in _OTHER_STATES:
        return False
    return state.startswith(_DATA_CLASS) or state in _DATA_STATES


def _raised(error: BaseException) -> Raised | None:
    """What a Python worker raised."""
    return raised_in_task(text_of(error)) if isinstance(error, PythonException) else None


def _is_pythons(raised: Raised, package: str | None) -> bool:
    name, message = raised.class_name, raised.message
    if name.startswith(_ADBC):
        states = [state for state in _SQLSTATE.findall(message) if state != _SPARKS_STATE]
        return bool(states) and _is_state_of_data(states[-1])
    if name == _UNREADABLE:
        return True
    found = _class_of(name)
    if found is not None and issubclass(found, _NEVER):
        return False
    if found in _RAISED_AS_SUCH:
        return _OF_THE_MACHINE not in message
    is_own = package is not None and name.startswith(f"{package}.")
    return is_own or (found is not None and issubclass(found, _OF_VALUES))


def _class_of(name: str) -> type[BaseException] | None:
    """None if this process does not know it: nothing is imported because of an error."""
    module, _, attribute = name.rpartition(".")
    found = getattr(sys.modules.get(module) if module else builtins, attribute, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _package(function: Callable[..., Any] | None) -> str | None:
    module = getattr(function, "__module__", None)
    return None if module is None else str(module).partition(".")[0]
