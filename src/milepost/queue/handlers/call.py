"""How jobs become calls of a handler: which parameters it has, and what each of them is given.

A handler is given its job (or list of jobs) first. `tx`, or a parameter that is annotated as a
psycopg connection or a Session of SQLAlchemy, is the transaction; so is `session`, where the worker
has `session=`. Every other parameter is a resource of that name, or keeps its default. All of this
is decided once, so that a call of a plain handler costs nothing more.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final

from milepost.handlers import Handler, is_async, refuse_class, refuse_generator
from milepost.queue.handlers.annotations import is_connection, is_session, is_unknown

if TYPE_CHECKING:
    from milepost.queue.outcome import RetryPolicy
    from milepost.records import TakenJob


class _Supplied:
    def __repr__(self) -> str:
        return "SUPPLIED"


# The default of a parameter that the worker supplies, so that type checkers let callers omit it.
SUPPLIED: Final[Any] = _Supplied()
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_COLLECTING = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Calls(ABC):
    """What a worker calls for its jobs: one handler, or the tasks of a channel."""

    @property
    @abstractmethod
    def is_async(self) -> bool: ...

    @abstractmethod
    def resolved(self, offered: Collection[str]) -> Resolved:
        """What its calls are, where there are resources of these names."""


class Resolved(ABC):
    """Calls whose parameters are known. `resources` are the names of those that are needed,
    `missing` describes parameters for which there is nothing."""

    resources: frozenset[str]
    missing: tuple[str, ...]

    @property
    @abstractmethod
    def is_transactional(self) -> bool:
        """Whether any of the calls needs a transaction."""

    def takes_tx(self, job: TakenJob) -> bool:  # noqa: ARG002 - one handler is the same for all
        return self.is_transactional

    def retry_of(self, job: TakenJob, policy: RetryPolicy) -> RetryPolicy:  # noqa: ARG002
        """How a failure of this job is retried; `policy` is the worker's."""
        return policy

    @property
    def timeouts(self) -> tuple[float, ...]:
        """Those of single calls, beside the worker's."""
        return ()

    def timeout_of(self, job: TakenJob, seconds: float | None) -> float | None:  # noqa: ARG002
        """How long the call for this job may take; `seconds` is the worker's."""
        return seconds

    @abstractmethod
    def bound(self, resources: Mapping[str, Any]) -> Handler:
        """To be called with a job, and with the transaction if the job takes one."""


@dataclass(frozen=True, slots=True)
class HandlerCalls(Calls):
    """All jobs are given to one handler. Refuses one that could not be given a job."""

    handler: Handler
    has_session: bool = False  # a parameter named `session` is the transaction

    def __post_init__(self) -> None:
        refuse_class(self.handler)
        refuse_generator(self.handler)
        parameters = parameters_of(self.handler)
        if not parameters or parameters[0].kind not in (*_POSITIONAL, Parameter.VAR_POSITIONAL):
            raise TypeError(
                f"{named(self.handler)} cannot be given its job: a handler has the job as its "
                "first parameter, as in def send(job)."
            )
        if not self.has_session and any(
            is_session(self.handler, p.annotation) for p in parameters[1:]
        ):
            raise TypeError(
                f"{named(self.handler)} takes a Session of SQLAlchemy, and its worker has no "
                "session=. Say what makes Sessions, as in @mp.worker('emails', "
                "session=SessionLocal)."
            )

    @property
    def is_async(self) -> bool:
        return is_async(self.handler)

    def resolved(self, offered: Collection[str]) -> ResolvedHandler:
        first, *rest = parameters_of(self.handler)
        own = [p for p in rest if p.kind not in _COLLECTING]
        names = ("tx", "session") if self.has_session else ("tx",)
        tx = transaction_of(self.handler, rest, offered, names)
        others = [p for p in own if p.name != tx]
        # A decorator without functools.wraps hides the parameters: it is given both.
        is_hidden = tx is None and Parameter.VAR_POSITIONAL in {p.kind for p in (first, *rest[:1])}
        return ResolvedHandler(
            self.handler,
            tx,
            is_tx_second=is_hidden or (tx is not None and is_second(tx, rest)),
            resources=frozenset(p.name for p in others if p.name in offered),
            missing=tuple(
                f"{p.name} of {named(self.handler)}"
                for p in others
                if (p.default is p.empty or p.default is SUPPLIED) and p.name not in offered
            ),
        )


@dataclass(frozen=True, slots=True)
class ResolvedHandler(Resolved):
    handler: Handler
    tx: str | None
    is_tx_second: bool  # it can be passed by position
    resources: frozenset[str]
    missing: tuple[str, ...]

    @property
    def is_transactional(self) -> bool:
        return self.tx is not None or self.is_tx_second

    def bound(self, resources: Mapping[str, Any]) -> Handler:
        given = {name: resources[name] for name in self.resources}
        handler = partial(self.handler, **given) if given else self.handler
        if self.tx is None or self.is_tx_second:
            return handler
        name = self.tx
        return lambda job, tx: handler(job, **{name: tx})


def parameters_of(handler: Handler) -> list[Parameter]:
    """Without those that a partial has fixed. A function written in C, whose parameters Python does
    not know, is given its job."""
    fixed: set[str] = set()
    inner = handler
    while isinstance(inner, partial):
        fixed |= inner.keywords.keys()
        inner = inner.func
    try:
        found = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return [Parameter("job", Parameter.POSITIONAL_ONLY)]
    return [parameter for parameter in found if parameter.name not in fixed]


def transaction_of(
    handler: Handler,
    rest: list[Parameter],
    offered: Collection[str],
    names: tuple[str, ...] = ("tx",),
) -> str | None:
    """The parameter that is the transaction: by its name or its annotation; else the second one, if
    it is required and nothing says that it is something else."""
    own = [p for p in rest if p.kind not in _COLLECTING and p.name not in offered]
    for parameter in own:
        if parameter.name in names or is_transaction(handler, parameter):
            return parameter.name
    if not rest or rest[0] not in own:
        return None
    second = rest[0]
    is_open = second.default is second.empty and is_unknown(second.annotation)
    return second.name if is_open and second.kind in _POSITIONAL else None


def is_transaction(handler: Handler, parameter: Parameter) -> bool:
    return parameter.name == "tx" or is_connection(handler, parameter.annotation)


def is_second(name: str, rest: list[Parameter]) -> bool:
    return bool(rest) and rest[0].name == name and rest[0].kind in _POSITIONAL


def named(handler: Handler) -> str:
    """As in `send(job, tx)`."""
    name = getattr(handler, "__name__", None) or repr(handler)
    return f"{name}({', '.join(p.name for p in parameters_of(handler))})"
