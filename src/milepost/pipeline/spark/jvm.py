"""Whether the JVM of Spark's driver, a child of this process, has ended."""

from __future__ import annotations

import subprocess

from pyspark import SparkContext

from milepost.errors import SparkDriverEnded
from milepost.pipeline.spark.failures import is_of_spark, text_of
from milepost.pipeline.spark.master import connect_problem

# A killed process has closed its sockets a moment before its parent can know that it ended.
END_SECONDS = 0.5
GATEWAY_SECONDS = 5.0
_STOPPED_WORDS = "stopped SparkContext"


def driver_ended(error: BaseException | None = None) -> SparkDriverEnded | None:
    """Whether Spark is gone in this process, whatever was raised because of it: calls to a dead JVM
    fail with refused connections, and with errors that name something else."""
    how = _how_ended(error is not None and _may_be_its_end(error))
    if how is None and error is not None and _STOPPED_WORDS in text_of(error):
        how = "it has stopped Spark, for example because its cluster was lost"
    return None if how is None else SparkDriverEnded(how)


def refuse_ended_driver() -> None:
    if ended := driver_ended():
        raise ended


def refuse_ended_child() -> None:
    """The same for who looks every second: a JVM that is not our child would have to be asked
    through its port."""
    if _child() is not None:
        refuse_ended_driver()


def _may_be_its_end(error: BaseException) -> bool:
    return is_of_spark(error) or isinstance(error, ConnectionError)


def _how_ended(is_likely: bool) -> str | None:
    gateway = SparkContext._gateway
    if gateway is None:
        return None
    process = _child()
    if process is None:  # spark-submit has started it
        port = gateway.gateway_parameters.port
        problem = connect_problem("127.0.0.1", port, GATEWAY_SECONDS)
        return None if problem is None else f"its port {port} does not answer ({problem})"
    try:
        code = process.wait(END_SECONDS if is_likely else 0)
    except subprocess.TimeoutExpired:
        return None
    return f"signal {-code} ended it" if code < 0 else f"it exited with code {code}"


def _child() -> subprocess.Popen[bytes] | None:
    gateway = SparkContext._gateway
    return None if gateway is None else vars(gateway).get("proc")
