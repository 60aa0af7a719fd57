"""The arguments of a task: checked against its signature when they are put, and stored as JSON.

Parameters that the worker supplies are not arguments: the transaction (named `tx`, or annotated as
a psycopg connection), the job (annotated as `TakenJob`, or named `job` without an annotation), and
resources, which have the default SUPPLIED.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

import orjson

from milepost.errors import InvalidArguments
from milepost.queue.handlers.annotations import evaluated, is_job, is_unknown
from milepost.queue.handlers.call import SUPPLIED, is_transaction

_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
# What JSON gives back, by the annotations that say exactly that.
_SIMPLE = (str, int, float, bool, list, dict)


@dataclass(frozen=True, slots=True)
class Arguments:
    """`signature` has the arguments only. `kinds` are those whose type can be checked."""

    task: str
    signature: Signature
    kinds: Mapping[str, type]
    tx: str | None
    job: str | None
    resources: frozenset[str]

    @classmethod
    def of(cls, task: str, function: Callable[..., Any]) -> Arguments:
        parameters = list(inspect.signature(function).parameters.values())
        refuse_nameless(task, parameters)
        tx = [p.name for p in parameters if is_transaction(function, p)]
        job = [p.name for p in parameters if _is_job(function, p)]
        resources = frozenset(p.name for p in parameters if p.default is SUPPLIED) - {*tx, *job}
        if len(tx) > 1 or len(job) > 1:
            raise TypeError(
                f"Task {task!r} names its transaction or its job twice: {', '.join(tx + job)}."
            )
        own = [p for p in parameters if p.name not in {*tx, *job, *resources}]
        return cls(
            task,
            Signature(own),
            {p.name: kind for p in own if (kind := _kind_of(function, p)) is not None},
            tx=tx[0] if tx else None,
            job=job[0] if job else None,
            resources=resources,
        )

    def encoded(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """By name, without defaults: those are the ones of the code that runs the task."""
        arguments = self._bound(given, named)
        for name, value in arguments.items():
            self._check(name, value)
        return arguments

    def misfit(self, arguments: object) -> str | None:
        """Why stored arguments cannot be passed to the function, if so."""
        if not isinstance(arguments, dict):
            return f"{type(arguments).__name__} is not a JSON object"
        try:
            self.signature.bind(**arguments)
        except TypeError as error:
            return str(error)
        return None

    def _bound(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return dict(self.signature.bind(*given, **named).arguments)
        except TypeError as error:
            raise self._invalid(str(error)) from None

    def _check(self, name: str, value: Any) -> None:
        kind = self.kinds.get(name)
        if kind is not None and not _is_a(value, kind):
            raise self._invalid(f"{name} must be {kind.__name__}, not {type(value).__name__}")
        if not _survives(value):
            raise self._invalid(
                f"{name} is {_shown(value)}, which JSON does not give back unchanged. Pass what "
                "JSON has: str, int, float, bool, None, list, dict with str keys"
            )

    def _invalid(self, reason: str) -> InvalidArguments:
        return InvalidArguments(self.task, str(self.signature), reason)


def refuse_nameless(task: str, parameters: list[Parameter]) -> None:
    """Arguments are stored by name, so that a signature can grow."""
    if strange := [str(p) for p in parameters if p.kind not in _BY_NAME]:
        raise TypeError(
            f"Task {task!r} cannot have the parameter {strange[0]}: its arguments are stored by "
            "name. Use named parameters, without *, ** and /."
        )


def _is_job(function: Callable[..., Any], parameter: Parameter) -> bool:
    if is_unknown(parameter.annotation):
        return parameter.name == "job"
    return is_job(function, parameter.annotation)


def _kind_of(function: Callable[..., Any], parameter: Parameter) -> type | None:
    kind = evaluated(function, parameter.annotation)
    return kind if isinstance(kind, type) and kind in _SIMPLE else None


def _is_a(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


def _survives(value: Any) -> bool:
    """Whether the task will be given what was put. A datetime, for example, would be a string."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except (TypeError, ValueError):  # orjson's errors
        return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
