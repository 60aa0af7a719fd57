"""What the errors of Spark and PostgreSQL mean for a pipeline: in a sentence or two, with the
pipeline's name and the user's line of code, without stacks.

The error itself is the cause of what is raised: `milepost run --verbose` shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from milepost.errors import (
    FunctionFailed,
    InvalidOutput,
    MilepostError,
    PipelineError,
    SparkFailed,
    UnknownColumn,
    WriteRefused,
)
from milepost.pipeline.names import COLUMNS, CONTENT
from milepost.pipeline.spark.tracebacks import (
    Raised,
    raised_in_task,
    users_place,
    was_raised_by_spark,
)

if TYPE_CHECKING:
    from milepost.pipeline.definition import PipelineOptions

NO_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"  # Spark's name for it
LONGEST = 600
_UNRESOLVED = "UNRESOLVED_COLUMN"
_SPARK_MODULES = ("pyspark.", "py4j.")
# Behind one of these there are only plans and stacks.
_BEHIND = re.compile(r"\n\n|;\n|\n\s+at |\n\+- |\nJVM stacktrace|\nDriver stacktrace|\n== ")
_CALLING = re.compile(r"^An error occurred while calling [^\n]*\n: ")
_LAST_TASK = re.compile(r"most recent failure: [^\n]*?\): (?P<said>[^\n]+)")
_OWN_ERROR = re.compile(r"milepost\.errors\.\w+: (?P<said>[^\n]+)")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}")
_JAVA_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+([A-Z]\w*)")


@dataclass(frozen=True, slots=True)
class SparkError:
    """What is known of an error of Spark, asked once: each question is a call to the JVM."""

    text: str
    condition: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    place: str | None = None

    @property
    def columns(self) -> tuple[str, list[str]] | None:
        """The column that is not there, and those that are; None if the error is another one."""
        if self.condition is None or not self.condition.startswith(_UNRESOLVED):
            return None
        proposed = self.parameters.get("proposal", "")
        known = [_unquoted(each) for each in proposed.split(", ") if each]
        return _unquoted(self.parameters.get("objectName", "")), known


def explained(error: Exception, options: PipelineOptions) -> Exception:
    """What to raise instead, or the error itself: one of ours, or of the user's own code in the
    driver, with its traceback."""
    name = options.name
    if isinstance(error, MilepostError):
        return error
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return WriteRefused(name, server_sentence(error))
    if type(error).__module__.startswith("adbc_driver_manager"):
        return _not_copied(name, str(error))
    if not is_of_spark(error):
        error.add_note(f"In pipeline {name!r}.")
        return error
    return meaning(spark_error(error), options)


def meaning(found: SparkError, options: PipelineOptions) -> PipelineError:
    """Pure."""
    if (own := _OWN_ERROR.search(found.text)) is not None:
        return PipelineError(options.name, _SQLSTATE.sub("", own["said"]))
    raised = raised_in_task(found.text)
    if raised is not None:
        return _in_task(options.name, raised)
    if found.columns is not None:
        return _unknown_column(options, found)
    return SparkFailed(options.name, sentence(found.text), found.condition, found.place)


def in_short(error: BaseException) -> str:
    """In a line: what Python code raised in a task, or what Spark says."""
    if not is_of_spark(error):
        return str(error)
    text = text_of(error)
    raised = raised_in_task(text)
    return sentence(text) if raised is None else _shown(raised)


def is_of_spark(error: BaseException) -> bool:
    return f"{type(error).__module__}.".startswith(_SPARK_MODULES)


def condition_of(error: BaseException) -> str | None:
    """Spark's name of what went wrong, without its sub-class."""
    condition = _asked(error, "getCondition") if is_of_spark(error) else None
    return None if condition is None else str(condition).partition(".")[0]


def needs_session(error: BaseException) -> bool:
    """Whether a module needed a session while it was imported: PySpark says so, or asserts it."""
    if isinstance(error, AssertionError):
        return was_raised_by_spark(error)
    return is_of_spark(error) and spark_error(error).condition == NO_SESSION


def spark_error(error: BaseException) -> SparkError:
    """A stream's error only says that the stream ended: its cause says why."""
    cause: BaseException | None = getattr(error, "_cause", None)
    if type(error).__name__ == "StreamingQueryException" and cause is not None:
        return spark_error(cause)
    parameters: Any = _asked(error, "getMessageParameters")
    return SparkError(
        text=text_of(error),
        condition=_asked(error, "getCondition"),
        parameters=parameters or {},
        place=users_place(error),
    )


def sentence(text: str) -> str:
    """Without plans, stacks and Java's names."""
    text = _CALLING.sub("", text)
    if (task := _LAST_TASK.search(text)) is not None:
        text = task["said"]
    first = _BEHIND.split(text, maxsplit=1)[0]
    plain = _JAVA_CLASS.sub(r"\1", " ".join(_SQLSTATE.sub("", first).split()))
    return _shortened(plain).rstrip(".;: ")


def server_sentence(error: psycopg.Error) -> str:
    """Without the context, which shows our own statements."""
    parts = (error.diag.message_primary, error.diag.message_detail)
    return _shortened(". ".join(" ".join(part.split()).rstrip(".") for part in parts if part))


def _in_task(pipeline: str, raised: Raised) -> PipelineError:
    if raised.module.startswith("adbc_driver_manager."):
        return _not_copied(pipeline, raised.first_line)
    return FunctionFailed(pipeline, _shown(raised).rstrip("."), raised.place)


def _shown(raised: Raised) -> str:
    said = _SQLSTATE.sub("", raised.first_line)
    return _shortened(f"{raised.name}: {said}" if said else raised.name)


def _not_copied(pipeline: str, said: str) -> InvalidOutput:
    return InvalidOutput(pipeline, None, f"could not be copied into PostgreSQL: {sentence(said)}.")


def _unknown_column(options: PipelineOptions, found: SparkError) -> UnknownColumn:
    column, known = found.columns or ("", [])
    is_left_out = column in (*COLUMNS, CONTENT) and column not in options.wanted
    if is_left_out:
        known = [*options.wanted]
    return UnknownColumn(options.name, column, known, found.place, is_left_out=is_left_out)


def _asked(error: BaseException, question: str) -> Any:
    """None if the JVM does not answer."""
    with suppress(Exception):
        return getattr(error, question)()
    return None


def text_of(error: BaseException) -> str:
    """What it says. An error that the JVM raised asks the JVM, which may be gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever the gateway raises
        return type(error).__name__


def _unquoted(name: str) -> str:
    """`o`.`total` as o.total."""
    return name.replace("`.`", ".").strip("`")


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
