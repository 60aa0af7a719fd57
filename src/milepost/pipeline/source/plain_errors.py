"""Our errors reach a Spark job in one line: by default Spark shows the traceback of the Python
process in which the source runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from milepost.errors import MilepostError

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Item = TypeVar("Item")
_VARIABLE = "SPARK_HIDE_TRACEBACK"  # read by Spark when it sends the error


def plainly(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """For what Spark calls in such a process."""

    @wraps(function)
    def call(*given: Given.args, **named: Given.kwargs) -> Returned:
        with _told():
            return function(*given, **named)

    return call


def each_plainly(items: Iterator[Item]) -> Iterator[Item]:
    with _told():
        yield from items


@contextmanager
def _told() -> Iterator[None]:
    """The process ends with the error, so nothing else is told without its traceback."""
    try:
        yield
    except MilepostError:
        if _is_of_spark():
            os.environ[_VARIABLE] = "1"
        raise


def _is_of_spark() -> bool:
    """Whether Spark has started this process. The driver may call the source, too."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
