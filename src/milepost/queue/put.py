"""Put jobs in the caller's own transaction.

One job is one call of put_bytes(), more are one call of put_many_bytes() for each thousand. Not
COPY, which a role could use only with the privilege to choose the ids of jobs. Whatever the way,
the jobs exist if and only if the caller's transaction commits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

from milepost import sql
from milepost.queue.encode import (
    Row,
    are_plain,
    encode,
    encode_plain,
)
from milepost.records import Job
from milepost.steps import run_steps
from milepost.telemetry import otel

if TYPE_CHECKING:
    from milepost.db import Statement
    from milepost.drivers import AnyAsyncConnection, AnyConnection
    from milepost.steps import Steps

PUT_AT_MOST = 1000  # by one call


@overload
def put(conn: AnyConnection, *jobs: Job, schema: str = ...) -> list[int]: ...
@overload
def put(conn: AnyAsyncConnection, *jobs: Job, schema: str = ...) -> Awaitable[list[int]]: ...
def put(
    conn: AnyConnection | AnyAsyncConnection, *jobs: Job, schema: str = sql.DEFAULT_SCHEMA
) -> list[int] | Awaitable[list[int]]:
    """Put jobs, in the transaction that is open on the connection (as for `append`, of psycopg or
    another driver, or a Session of SQLAlchemy); answers with their ids, in the same order. With an
    async connection or session, await it.

    Where a job of the channel has the same unique key, its id is answered instead.
    """
    _refuse_others(conn, jobs)
    if otel is None or not jobs:
        return _put(conn, jobs, schema, None)
    trace = otel.current_text()
    return otel.sent("put", jobs, lambda: _put(conn, jobs, schema, trace))


def _put(
    conn: AnyConnection | AnyAsyncConnection, jobs: tuple[Job, ...], schema: str, trace: str | None
) -> list[int] | Awaitable[list[int]]:
    def plan(_can_copy: bool) -> tuple[Steps[list[int]], bool]:
        return _steps(jobs, schema, trace)

    return run_steps(conn, plan, schema, "put")


@overload
def put_group(
    conn: AnyConnection, jobs: Iterable[Job], then: Job, *, schema: str = ...
) -> tuple[list[int], int]: ...
@overload
def put_group(
    conn: AnyAsyncConnection, jobs: Iterable[Job], then: Job, *, schema: str = ...
) -> Awaitable[tuple[list[int], int]]: ...
def put_group(
    conn: AnyConnection | AnyAsyncConnection,
    jobs: Iterable[Job],
    then: Job,
    *,
    schema: str = sql.DEFAULT_SCHEMA,
) -> tuple[list[int], int] | Awaitable[tuple[list[int], int]]:
    """Put jobs, and one that runs when all of them have completed, all or nothing; answers with
    their ids, and with its id. With an async connection, await it. If one of them dies, `on_dead`
    of `then` says what becomes of it."""
    members = tuple(jobs)
    _refuse_others(conn, (*members, then))
    encode(then)  # refused before anything is sent
    if otel is None:
        return _put_group(conn, members, then, schema, None)
    trace = otel.current_text()
    return otel.sent(
        "put", (*members, then), lambda: _put_group(conn, members, then, schema, trace)
    )


def _put_group(
    conn: AnyConnection | AnyAsyncConnection,
    jobs: tuple[Job, ...],
    then: Job,
    schema: str,
    trace: str | None,
) -> tuple[list[int], int] | Awaitable[tuple[list[int], int]]:
    def plan(_can_copy: bool) -> tuple[Steps[tuple[list[int], int]], bool]:
        return _group(jobs, then, schema, trace), True

    return run_steps(conn, plan, schema, "put")


def _group(
    jobs: tuple[Job, ...], then: Job, schema: str, trace: str | None
) -> Steps[tuple[list[int], int]]:
    steps, _ = _steps(jobs, schema, trace)
    ids = yield from steps
    final = replace(then, after=[*then.after, *ids])
    (last,) = yield from _call(_statement([encode(final)], schema, trace))
    return ids, last


def _refuse_others(conn: object, jobs: Sequence[object]) -> None:
    """With an error that says what is expected."""
    if isinstance(conn, Job):
        raise TypeError(
            "put() was given a job instead of a connection. Pass the connection or Session first, "
            "in whose transaction the jobs are to exist: put(conn, job)."
        )
    for kind in set(map(type, jobs)):
        if not issubclass(kind, Job):
            raise TypeError(f"put() was given a {kind.__name__}, expected a milepost.Job.")


def _steps(jobs: Sequence[Job], schema: str, trace: str | None) -> tuple[Steps[list[int]], bool]:
    """What is to be done, and whether it is more than one statement. What is refused is refused
    here, or there. `trace`: of the span in which they are put."""
    is_plain = are_plain(jobs)
    if len(jobs) > PUT_AT_MOST:
        return _call_often(jobs, schema, trace, is_plain=is_plain), True
    return _call(_statement_of(jobs, schema, trace, is_plain=is_plain)), False


def _statement_of(
    jobs: Sequence[Job], schema: str, trace: str | None, *, is_plain: bool
) -> Statement | None:
    if is_plain:
        return _plain_statement([encode_plain(job) for job in jobs], schema, trace)
    return _statement([encode(job) for job in jobs], schema, trace)


def _call_often(
    jobs: Sequence[Job], schema: str, trace: str | None, *, is_plain: bool
) -> Steps[list[int]]:
    """If one is refused, a savepoint undoes the earlier ones."""
    ids: list[int] = []
    for start in range(0, len(jobs), PUT_AT_MOST):
        some = jobs[start : start + PUT_AT_MOST]
        ids += yield from _call(_statement_of(some, schema, trace, is_plain=is_plain))
    return ids


def _call(statement: Statement | None) -> Steps[list[int]]:
    if statement is None:
        return []
    ((found,),) = yield statement
    return found if isinstance(found, list) else [found]


def _plain_statement(
    rows: list[tuple[str, bytes]], schema: str, trace: str | None
) -> Statement | None:
    if not rows:
        return None
    kind, traced = ("plain", {}) if trace is None else ("traced", {"trace": trace})
    if len(rows) == 1:
        ((channel, content),) = rows
        one = {"channel": channel, "content": content}
        return sql.query(f"queue_put_{kind}", schema), one | traced
    channels, contents = map(list, zip(*rows, strict=True))
    many = {"channels": channels, "contents": contents}
    return sql.query(f"queue_put_many_{kind}", schema), many | traced


def _statement(rows: list[Row], schema: str, trace: str | None) -> Statement:
    if len(rows) == 1:
        return sql.query("queue_put", schema), rows[0]._asdict() | {"trace": trace}
    names = (
        "channels", "contents", "run_ats", "delays", "priorities", "max_attempts", "unique_keys",
        "states", "keep_for", "afters", "on_dead", "replaces", "unique_for",
    )  # fmt: skip
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    # As text: the rows of an array of arrays all have one length.
    columns["afters"] = [ids and f"{{{','.join(map(str, ids))}}}" for ids in columns["afters"]]
    return sql.query("queue_put_many", schema), columns | {"trace": trace}
