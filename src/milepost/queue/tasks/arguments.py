"""The arguments of a task: stored as JSON, and checked against its signature when they are put, and
again when it is called: SQL puts anything, and the signature may be another one by then.

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
from milepost.queue.tasks.json_types import Check, check_of

_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Arguments:
    """`signature` has the arguments only. `checks` are of those whose type JSON has."""

    task: str
    signature: Signature
    checks: Mapping[str, Check]
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
            {p.name: check for p in own if (check := _check_of(function, p)) is not None},
            tx=tx[0] if tx else None,
            job=job[0] if job else None,
            resources=resources,
        )

    def encoded(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """By name, without defaults: those are the ones of the code that runs the task."""
        arguments = self._bound(given, named)
        for name, value in arguments.items():
            self._refuse_changed(name, value)
        if wrong := self.wrong_type(arguments):
            raise self._invalid(wrong)
        return arguments

    def misfit(self, arguments: object) -> str | None:
        """Why stored arguments cannot be passed to the function, if so."""
        if not isinstance(arguments, dict):
            return f"{type(arguments).__name__} is not a JSON object"
        try:
            self.signature.bind(**arguments)
        except TypeError as error:
            return str(error)
        return self.wrong_type(arguments)

    def wrong_type(self, arguments: object) -> str | None:
        """What is wrong with one of them, if it is not what its annotation says."""
        if not isinstance(arguments, dict):
            return None
        for name, check in self.checks.items():
            if name in arguments and (wrong := check(arguments[name])) is not None:
                place, reason = wrong
                return f"{name}{place} {reason}"
        return None

    def _bound(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return dict(self.signature.bind(*given, **named).arguments)
        except TypeError as error:
            raise self._invalid(str(error)) from None

    def _refuse_changed(self, name: str, value: Any) -> None:
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


def _check_of(function: Callable[..., Any], parameter: Parameter) -> Check | None:
    annotation = evaluated(function, parameter.annotation)
    if annotation is parameter.empty:
        return None
    # `x: int = None` is understood, whatever type checkers say.
    return check_of(annotation | None if _is_optional(annotation, parameter) else annotation)


def _is_optional(annotation: Any, parameter: Parameter) -> bool:
    return parameter.default is None and isinstance(annotation, type)


def _survives(value: Any) -> bool:
    """Whether the task will be given what was put. A datetime, for example, would be a string."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except (TypeError, ValueError):  # orjson's errors
        return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
