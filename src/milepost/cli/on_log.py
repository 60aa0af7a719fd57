"""Commands that work on a log: a parameter `mp` stands for the options --url and --schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log

Function = TypeVar("Function", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Bundle:
    """Several options that a command receives as one object."""

    options: Sequence[Parameter]
    build: Callable[..., Any]


def option(name: str, annotation: object, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


LOG = Bundle(
    [option("url", options.Url, None), option("schema", options.Schema, sql.DEFAULT_SCHEMA)],
    open_log,
)


def expanded(function: Callable[..., None], **bundles: Bundle) -> Callable[..., None]:
    """The function as Typer has to see it: with the options in place of the parameters that they
    are bundled in. They are listed last, before --json."""
    whole = signature(function, eval_str=True)
    own = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in whole.parameters.values()]
    used = {p.name: bundles[p.name] for p in own if p.name in bundles}
    first = [p for p in own if p.name not in used and p.name != "as_json"]
    last = [p for p in own if p.name == "as_json"]
    parameters = [*first, *(p for bundle in used.values() for p in bundle.options), *last]

    @wraps(function)
    def command(**given: Any) -> None:
        for name, bundle in used.items():
            given[name] = bundle.build(**{p.name: given.pop(p.name) for p in bundle.options})
        function(**given)

    command.__annotations__ = {p.name: p.annotation for p in parameters}
    vars(command)["__signature__"] = whole.replace(parameters=parameters)
    return command


def on_log(function: Callable[..., None]) -> Callable[..., None]:
    return expanded(function, mp=LOG)


def command_of(group: typer.Typer, name: str | None = None) -> Callable[[Function], Function]:
    """Add a command to a group. The function itself stays callable with an `mp`."""

    def add(function: Function) -> Function:
        group.command(name)(on_log(function))
        return function

    return add


def new_group(help_: str, by_default: Callable[..., None], name: str | None = None) -> typer.Typer:
    """A group of commands that runs `by_default(mp, as_json=...)` when no command is named. It is
    also the command `name`."""

    def default(
        context: typer.Context,
        url: options.Url = None,
        schema: options.Schema = sql.DEFAULT_SCHEMA,
        as_json: options.AsJson = False,
    ) -> None:
        if context.invoked_subcommand is None:
            by_default(open_log(url, schema), as_json=as_json)

    group = typer.Typer(invoke_without_command=True)
    group.callback(help=help_)(default)
    if name is not None:
        command_of(group, name)(by_default)
    return group
