"""Calls handlers as processors and workers do, in one transaction, without running either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack, closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from milepost import db
from milepost.binding import bound, bound_async
from milepost.handlers import refuse_broken, refuse_unfinished
from milepost.processors import Definition, Processor, ProcessorOptions, handler_calls
from milepost.records import Job, Message, Position, RecordedMessage, TakenJob
from milepost.runtime import EventLoop

if TYPE_CHECKING:
    from milepost.binding import Binding
    from milepost.handlers import Handler
    from milepost.queue import Worker

NAME = "given"


def process(handler: Processor | Handler, url: str, messages: Sequence[Message]) -> None:
    definition = _definition_of(handler)
    if definition.participants:
        raise TypeError(
            "A handler that checkpoints itself needs claims and triggers: append messages with "
            "mp.append, and run it with mp.drain()."
        )
    selected = [each for each in messages if definition.options.selection.selects(each)]
    given = [recorded(message, number) for number, message in enumerate(selected, 1)]
    calls = handler_calls(definition, given)
    has_tx = definition.options.delivery == "exactly_once"
    if definition.is_async:
        with closing(EventLoop(NAME)) as loop:
            loop.run(_call_async(calls, url, definition.options.session, has_tx=has_tx))
    else:
        _call(calls, url, definition.options.session, has_tx=has_tx)


def work(worker: Worker, url: str, jobs: Sequence[Job]) -> None:
    """Each job in a transaction of its own, if the handler takes one; with handle="batch", all in
    one call."""
    definition = worker.definition
    definition.check()
    given = [taken(job, number) for number, job in enumerate(jobs, 1)]
    arguments: list[Any] = [given] if definition.options.handle == "batch" else [*given]
    if definition.is_async:
        with closing(EventLoop(NAME)) as loop:
            loop.run(_work_async(worker, url, arguments))
        return
    with ExitStack() as stack:
        handler = definition.open(stack)
        for argument in arguments:
            # With a Session, its handler takes it from the connection.
            _call([_bound(handler, argument)], url, None, has_tx=definition.is_transactional)


async def _work_async(worker: Worker, url: str, arguments: list[Any]) -> None:
    async with AsyncExitStack() as stack:
        handler = await worker.definition.open_async(stack)
        for argument in arguments:
            calls = [_bound(handler, argument)]
            await _call_async(calls, url, None, has_tx=worker.definition.is_transactional)


def _bound(handler: Handler, argument: Any) -> Callable[..., Any]:
    return lambda *tx: handler(argument, *tx)


def _call(
    calls: Iterable[Callable[..., Any]], url: str, binding: Binding | None, *, has_tx: bool
) -> None:
    if not has_tx:
        for call in calls:
            refuse_unfinished(call())
        return
    with db.connect(url) as conn, conn.transaction():
        with bound(binding, conn) as tx:
            for call in calls:
                refuse_unfinished(call(tx))
        refuse_broken(conn)


async def _call_async(
    calls: Iterable[Callable[..., Any]], url: str, binding: Binding | None, *, has_tx: bool
) -> None:
    if not has_tx:
        for call in calls:
            await call()
        return
    async with await db.connect_async(url) as conn, conn.transaction():
        async with bound_async(binding, conn) as tx:
            for call in calls:
                await call(tx)
        refuse_broken(conn)


def _definition_of(handler: Processor | Handler) -> Definition:
    """A function that no processor has is called as that of an exactly-once processor."""
    if isinstance(handler, Processor):
        return handler.definition
    return Definition.of(ProcessorOptions(NAME), handler)


def recorded(message: Message, number: int) -> RecordedMessage:
    """As if it had been read from the log."""
    if isinstance(message, RecordedMessage):
        return message
    return RecordedMessage(
        message.type,
        message.data,
        Position(0, number),
        datetime.now(UTC),
        key=message.key,
        topic=message.topic,
        metadata=message.metadata,
        id=message.id,
    )


def taken(job: Job, number: int) -> TakenJob:
    """As if it had been taken from its channel for the first time."""
    return TakenJob(
        id=number,
        channel=job.channel,
        attempt=1,
        failures=0,
        max_attempts=job.max_attempts,
        priority=job.priority,
        run_at=job.run_at if isinstance(job.run_at, datetime) else datetime.now(UTC),
        raw=_raw(job.content),
        raw_state=None if job.state is None else _raw(job.state),
        unique_key=job.unique_key,
        is_kept=job.keep_for is not None,
    )


def _raw(value: Any) -> bytes:
    return value if isinstance(value, bytes) else orjson.dumps(value)
