"""What each parameter of a handler is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import psycopg
import pytest

from milepost.db import AsyncConnection, Connection
from milepost.queue.definition import Definition, WorkerOptions
from milepost.queue.handlers.call import SUPPLIED, HandlerCalls

TX = object()


class Client: ...


class Transfer(psycopg.Connection[Any]): ...


def plain(job: Any) -> Any:
    return (job,)


def named(job: Any, tx: Any) -> Any:
    return job, tx


def annotated(job: Any, conn: Connection) -> Any:
    return job, conn


def annotated_async(job: Any, conn: AsyncConnection) -> Any:
    return job, conn


def of_psycopg(job: Any, conn: psycopg.Connection[Any]) -> Any:
    return job, conn


def of_a_subclass(job: Any, conn: Transfer) -> Any:
    return job, conn


def perhaps(job: Any, conn: Connection | None = None) -> Any:
    return job, conn


def of_any_name(job, connection):  # type: ignore[no-untyped-def]
    return job, connection


def keyword_only(job: Any, *, tx: Connection) -> Any:
    return job, tx


def last(job: Any, dry_run: bool = False, tx: Connection | None = None) -> Any:
    return job, tx


def with_default(job: Any, dry_run: bool = False) -> Any:
    return job, dry_run


def configured(job: Any, *, retries: int = 3) -> Any:
    return job, retries


def by_keyword(*, job: Any) -> None: ...
def by_any_keyword(**job: Any) -> None: ...


def hiding(handler: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return handler(*arguments)

    return call


@wraps(plain)
def wrapped(*arguments: Any) -> Any:
    return plain(*arguments)


class Sender:
    def __call__(self, job: Any, conn: Connection) -> Any:
        return job, conn

    def send(self, job: Any, conn: Connection) -> Any:
        return job, conn


@pytest.mark.parametrize(
    "handler",
    [
        named,
        annotated,
        annotated_async,
        of_psycopg,
        of_a_subclass,
        perhaps,
        of_any_name,
        keyword_only,
        last,
        hiding(named),
        Sender(),
        Sender().send,
        partial(last, dry_run=True),
    ],
)
def test_these_are_given_the_transaction(handler: Any) -> None:
    calls = HandlerCalls(handler).resolved(())
    assert calls.is_transactional
    assert calls.bound({})("job", TX) == ("job", TX)
    assert calls.missing == ()


@pytest.mark.parametrize(
    ("handler", "given"),
    [
        (plain, ()),
        (with_default, (False,)),
        (configured, (3,)),
        (wrapped, ()),
        (partial(named, tx=1), (1,)),
    ],
)
def test_these_are_not(handler: Any, given: tuple[Any, ...]) -> None:
    calls = HandlerCalls(handler).resolved(())
    assert not calls.is_transactional
    assert calls.bound({})("job") == ("job", *given)


def test_a_handler_in_c_is_given_its_job() -> None:
    handled: list[str] = []
    calls = HandlerCalls(handled.append).resolved(())
    assert not calls.is_transactional
    calls.bound({})("job")
    assert handled == ["job"]


def test_resources_are_given_by_name() -> None:
    def send(job: Any, client: Client, tx: Connection, model: str = "small", *, size: int) -> Any:
        return job, client, tx, model, size

    calls = HandlerCalls(send).resolved(["client", "size", "unused"])
    assert calls.resources == {"client", "size"}
    assert calls.bound({"client": "c", "size": 3, "unused": 0})("job", TX) == (
        "job", "c", TX, "small", 3,
    )  # fmt: skip


def test_a_resource_comes_before_the_transaction_of_another_name() -> None:
    def send(job, client):  # type: ignore[no-untyped-def]
        return job, client

    assert HandlerCalls(send).resolved([]).is_transactional
    calls = HandlerCalls(send).resolved(["client"])
    assert not calls.is_transactional
    assert calls.bound({"client": "c"})("job") == ("job", "c")


def test_a_parameter_for_which_there_is_nothing_is_named() -> None:
    def send(job: Any, client: Client, *, size: int = SUPPLIED) -> None: ...

    calls = HandlerCalls(send).resolved(())
    assert calls.missing == ("client of send(job, client, size)", "size of send(job, client, size)")
    assert not calls.is_transactional


@pytest.mark.parametrize("handler", [lambda: None, by_keyword, by_any_keyword, Client])
def test_a_handler_that_cannot_be_given_a_job_is_refused_when_it_is_registered(
    handler: Any,
) -> None:
    with pytest.raises(TypeError, match=r"def send\(job\)|is a class"):
        Definition(WorkerOptions("emails"), handler)
