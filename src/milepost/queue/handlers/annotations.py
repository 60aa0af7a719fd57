"""What an annotation says about a parameter. An annotation may be a string that cannot be evaluated
here, as where its import is for type checkers only: then its text decides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import UnionType
from typing import Any, Union, get_args, get_origin

import psycopg

from milepost.records import TakenJob

CONNECTIONS = (psycopg.Connection, psycopg.AsyncConnection)


def is_unknown(annotation: Any) -> bool:
    """It says nothing."""
    return annotation in (inspect.Parameter.empty, Any, "Any", "typing.Any", object, "object")


def is_connection(function: Callable[..., Any], annotation: Any) -> bool:
    return _is_any_of(function, annotation, CONNECTIONS)


def is_job(function: Callable[..., Any], annotation: Any) -> bool:
    return _is_any_of(function, annotation, (TakenJob,))


def evaluated(function: Callable[..., Any], annotation: Any) -> Any:
    """The object that a string names, as the function sees it; the string, if it names none."""
    if not isinstance(annotation, str):
        return annotation
    while isinstance(function, partial):
        function = function.func
    inner = inspect.unwrap(function)
    method = getattr(type(inner), "__call__", None)  # noqa: B004 - of an object that is called
    names = getattr(inner, "__globals__", None) or getattr(method, "__globals__", {})
    try:
        return eval(annotation, dict(names))  # noqa: S307 - as typing.get_type_hints does
    except Exception:  # noqa: BLE001 - whatever an annotation raises, it is not known here
        return annotation


def _is_any_of(function: Callable[..., Any], annotation: Any, classes: tuple[type, ...]) -> bool:
    """One of these classes or a subclass; also in a union, as `Connection | None`."""
    return any(_is(part, classes) for part in _parts(evaluated(function, annotation)))


def _parts(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, str):
        yield from (part.strip() for part in annotation.split("|"))
    elif get_origin(annotation) in (Union, UnionType):
        yield from get_args(annotation)
    else:
        yield annotation


def _is(annotation: Any, classes: tuple[type, ...]) -> bool:
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type):
        return issubclass(kind, classes)
    if not isinstance(kind, str):
        return False
    name = kind.partition("[")[0].rpartition(".")[2]
    return name in {known.__name__ for known in classes}
