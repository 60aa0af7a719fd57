"""Statements of which each may depend on the rows of those before it, written once as a generator
and run in the caller's transaction by any driver of either colour, sync or async."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg

from milepost.drivers import AsyncDriver, Copy, Driver, Psycopg, driver_of

if TYPE_CHECKING:
    from milepost import sql
    from milepost.db import Statement
    from milepost.drivers import AnyAsyncConnection, AnyConnection, PendingDriver

S = TypeVar("S")
T = TypeVar("T")

Steps: TypeAlias = "Generator[Statement | Copy, Any, T]"
# Given whether the driver copies: the steps, and whether those before a failed one must be undone.
Plan: TypeAlias = "Callable[[bool], tuple[Steps[T], bool]]"


def run_steps(
    given: AnyConnection | AnyAsyncConnection,
    plan: Plan[T],
    schema: str,
    activity: sql.Activity,
) -> T | Awaitable[T]:
    """What the steps return; with an async connection, await it."""
    if isinstance(given, psycopg.Connection):
        return _run(Psycopg(given), plan, schema, activity)
    driver = driver_of(given)
    if isinstance(driver, Driver):
        return _run(driver, plan, schema, activity)
    if not isinstance(driver, AsyncDriver):
        return _run_pending(driver, plan, schema, activity)
    steps, in_savepoint = plan(driver.psycopg is not None)
    driver.check()
    return _run_async(driver, steps, schema, activity, in_savepoint=in_savepoint)


def _run(driver: Driver, plan: Plan[T], schema: str, activity: sql.Activity) -> T:
    """What the plan refuses is refused first: then the connection has not been touched."""
    steps, in_savepoint = plan(driver.psycopg is not None)
    driver.check()
    with driver.errors(schema, activity), driver.savepoint() if in_savepoint else nullcontext():
        return drive(steps, driver.do)


async def _run_pending(
    pending: PendingDriver, plan: Plan[T], schema: str, activity: sql.Activity
) -> T:
    driver = await pending()
    steps, in_savepoint = plan(driver.psycopg is not None)
    driver.check()
    return await _run_async(driver, steps, schema, activity, in_savepoint=in_savepoint)


async def _run_async(
    driver: AsyncDriver, steps: Steps[T], schema: str, activity: sql.Activity, *, in_savepoint: bool
) -> T:
    with driver.errors(schema, activity):
        async with driver.savepoint() if in_savepoint else nullcontext():
            return await drive_async(steps, driver.do)


def drive(steps: Generator[S, Any, T], do: Callable[[S], Any]) -> T:
    """Do the steps one after another, each given what the one before it has found."""
    found = None
    while True:
        try:
            step = steps.send(found)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns
        found = do(step)


async def drive_async(steps: Generator[S, Any, T], do: Callable[[S], Awaitable[Any]]) -> T:
    found = None
    while True:
        try:
            step = steps.send(found)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns
        found = await do(step)
