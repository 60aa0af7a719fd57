"""Errors as Spark 4.3 raises them, and what we make of them."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkRuntimeError

from milepost import Append
from milepost.errors import (
    FunctionFailed,
    InvalidOutput,
    PipelineError,
    SparkFailed,
    UnknownColumn,
)
from milepost.pipeline.definition import PipelineOptions
from milepost.pipeline.spark.failures import (
    NO_SESSION,
    SparkError,
    explained,
    in_short,
    meaning,
    needs_session,
    sentence,
)
from milepost.pipeline.spark.tracebacks import raised_in_task, users_place

OPTIONS = PipelineOptions("orders", Append("t"), columns=["data"])
UDF = """An exception was thrown from the Python worker. Please see the stack trace below:
Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1100, in main
    process()
  File "/home/ada/app.py", line 12, in cents
    return int(text) * 100
           ^^^^^^^^^
ValueError: invalid literal for int() with base 10: 'x'
"""
JAVA = "\n\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2830)"
IN_JAVA = (
    "An error occurred while calling o59.collectToPython.\n: org.apache.spark.SparkException: Job "
    "aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost "
    "task 0.0 in stage 0.0 (TID 0) (localhost executor driver): "
)


def meant(text: str, condition: str | None = None, **parameters: str) -> Exception:
    return meaning(SparkError(text, condition, parameters), OPTIONS)


def test_of_a_udf_its_exception_and_the_users_line_are_left() -> None:
    error = meant(UDF)
    assert isinstance(error, FunctionFailed)
    assert error.cause == "ValueError: invalid literal for int() with base 10: 'x'"
    assert error.place == "app.py, line 12, in cents: return int(text) * 100"
    assert str(error).startswith("Pipeline 'orders': its code raised ValueError: ")
    assert "\n" not in str(error)


def test_a_traceback_inside_of_javas_is_found() -> None:
    error = meant(f"{IN_JAVA}org.apache.spark.api.python.PythonException: {UDF}{JAVA}")
    assert isinstance(error, FunctionFailed)
    assert str(error.place).startswith("app.py, line 12")


def test_the_last_of_a_chain_counts() -> None:
    raised = raised_in_task(
        f"{UDF}\nDuring handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/home/ada/app.py", line 14, in cents\n    raise BadOrder(text)\n'
        "app.BadOrder: x\n"
    )
    assert raised is not None
    assert (raised.class_name, raised.message, raised.place) == (
        "app.BadOrder",
        "x",
        "app.py, line 14, in cents: raise BadOrder(text)",
    )


def test_the_users_line_is_the_last_that_is_not_a_librarys() -> None:
    text = UDF.replace(
        "ValueError: ",
        '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n    raise it\n'
        "json.decoder.JSONDecodeError: ",
    )
    raised = raised_in_task(text)
    assert raised is not None
    assert str(raised.place).startswith("app.py, line 12")
    assert raised.name == "JSONDecodeError"


def test_our_own_error_in_a_task_says_what_it_says() -> None:
    traceback = UDF.replace("ValueError: ", "milepost.errors.RangeRemoved: ")
    error = meant(traceback)
    assert type(error) is PipelineError
    assert str(error) == "Pipeline 'orders': invalid literal for int() with base 10: 'x'"


def test_a_copy_that_fails_is_about_the_output() -> None:
    error = meant(UDF.replace("ValueError: ", "adbc_driver_manager.DataError: "))
    assert isinstance(error, InvalidOutput)


UNRESOLVED = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `totl`"
    " cannot be resolved. Did you mean one of the following? [`total`, `day`]. SQLSTATE: 42703;\n"
    "'Project ['totl]\n+- Project [a#1]\n"
)


def test_a_wrong_column_is_named_with_those_that_there_are() -> None:
    error = meant(
        UNRESOLVED,
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        objectName="`o`.`totl`",
        proposal="`total`, `day`",
    )
    assert isinstance(error, UnknownColumn)
    assert (error.column, error.known) == ("o.totl", ["total", "day"])
    assert str(error) == (
        "Pipeline 'orders': its function uses the column 'o.totl', which is not there. There are: "
        "total, day. Nothing was written."
    )


def test_a_column_that_the_option_leaves_out_names_the_option() -> None:
    error = meant(
        UNRESOLVED,
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        objectName="`topic`",
        proposal="`data`",
    )
    assert "Pass columns=['data', 'topic']" in str(error)


def test_anything_else_is_what_spark_says_without_plans_and_stacks() -> None:
    error = meant(UNRESOLVED + JAVA, "SOMETHING_ELSE")
    assert isinstance(error, SparkFailed)
    assert error.condition == "SOMETHING_ELSE"
    assert str(error).count("\n") == 0
    assert "Project" not in str(error)
    assert "SQLSTATE" not in str(error)


def test_of_a_failed_job_the_last_failure_of_a_task_is_left() -> None:
    assert sentence(f"{IN_JAVA}java.lang.OutOfMemoryError: Java heap space{JAVA}\n") == (
        "OutOfMemoryError: Java heap space"
    )


def test_the_users_own_exception_stays_and_gets_the_pipelines_name() -> None:
    error = ZeroDivisionError("nothing")
    assert explained(error, OPTIONS) is error
    assert error.__notes__ == ["In pipeline 'orders'."]
    assert in_short(error) == "nothing"


def test_a_module_that_needs_a_session_is_recognised() -> None:
    error = PySparkRuntimeError(errorClass=NO_SESSION, messageParameters={})
    assert needs_session(error)
    assert not needs_session(PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED"))
    assert not needs_session(RuntimeError("another"))


def test_the_line_of_a_traceback_is_the_users() -> None:
    with pytest.raises(ValueError, match="here") as raised:
        raise ValueError("here")
    assert "test_failures.py, line" in str(users_place(raised.value))
