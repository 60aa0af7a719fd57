"""The connections of a Python worker of Spark: one for each database, kept between tasks."""

from __future__ import annotations

import gc

from pyspark import TaskContext

from milepost import adbc
from milepost.adbc import Connection

_connections: dict[str, Connection] = {}


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
