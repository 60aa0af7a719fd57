"""The connections of a Python worker of Spark: one for each database, kept between tasks. Those of
the driver are for batches of few rows."""

from __future__ import annotations

import gc
import threading

from pyspark import TaskContext

from milepost import adbc
from milepost.adbc import Connection

_connections: dict[str, Connection] = {}
# A worker runs one task at a time. In the driver, the threads of all pipelines share a connection.
in_driver = threading.Lock()


def connection(conninfo: str) -> Connection:
    if conninfo not in _connections:
        _connections[conninfo] = adbc.connect(conninfo)
        _settle()
    return _connections[conninfo]


def _settle() -> None:
    """Spark collects garbage after each task. What a worker has imported by now stays: to look
    through it each time took a tenth of the time of a read."""
    if TaskContext.get() is not None:
        gc.freeze()


def forget(conninfo: str) -> None:
    """A connection that has failed is not used again."""
    if broken := _connections.pop(conninfo, None):
        broken.close()
