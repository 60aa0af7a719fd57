"""One trace from a request to the last worker; retries and batches link to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    get_current_span,
    use_span,
)

from milepost import Cancel, Defer, Job, Message, Milepost, RecordedMessage, TakenJob, db
from milepost.db import AsyncConnection, Connection
from milepost.retry import Retry
from milepost.telemetry.carried import MOST_LINKS
from tests.integration.telemetry.conftest import Recorded

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
# Without any pause: in one, a run until everything is drained would find nothing left to do.
AT_ONCE = Retry(limit=3, first_seconds=0)


def context(span: ReadableSpan) -> SpanContext:
    found: SpanContext | None = span.context
    assert found is not None
    return found


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return (
        child.parent is not None
        and child.parent.span_id == context(parent).span_id
        and context(child).trace_id == context(parent).trace_id
    )


def linked(span: ReadableSpan) -> set[int]:
    return {link.context.span_id for link in span.links}


def stored(conn: Connection) -> list[Mapping[str, Any]]:
    rows = conn.execute('select metadata from milepost.messages order by "position"').fetchall()
    return [row[0] for row in rows]


def traces(conn: Connection) -> list[str | None]:
    return [row[0] for row in conn.execute("select trace from milepost.jobs order by id")]


def handle_in_span(seen: list[int]) -> None:
    seen.append(get_current_span().get_span_context().span_id)


def nothing(*_given: object) -> None:
    """A handler of anything."""


def test_a_request_its_message_and_its_job_are_one_trace(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    seen: list[int] = []

    @mp.processor("orders", handle="message")
    def order(message: RecordedMessage, tx: Connection) -> None:
        handle_in_span(seen)
        mp.put(tx, Job("receipts", message.data))

    @mp.worker("receipts")
    def send(job: TakenJob) -> None:
        handle_in_span(seen)

    with recorded.tracer.start_as_current_span("request"):
        mp.append(conn, Message("Ordered", {"order": 1}, topic="shop"))
    order.run(until="caught_up")
    send.run(until="drained")

    request, handled = recorded.span("request"), recorded.span("process shop")
    sent = recorded.span("process receipts")
    assert is_child(handled, request)
    assert is_child(sent, handled)
    assert seen == [context(handled).span_id, context(sent).span_id]
    assert handled.kind == sent.kind == SpanKind.CONSUMER
    assert handled.attributes is not None
    assert handled.attributes["messaging.system"] == "milepost"
    assert handled.attributes["messaging.operation.type"] == "process"
    assert handled.attributes["messaging.consumer.group.name"] == "orders"
    assert not handled.links


def test_coroutines_continue_a_trace_too(
    mp: Milepost, conn: Connection, url: str, recorded: Recorded
) -> None:
    seen: list[int] = []

    @mp.processor("orders", handle="message", topics=["shop"])
    async def order(message: RecordedMessage, tx: AsyncConnection) -> None:
        await asyncio.sleep(0)
        handle_in_span(seen)
        await mp.append(tx, Message("Paid", {}, topic="paid"))
        await mp.put(tx, Job("receipts"), Job("receipts", priority=1))

    @mp.worker("receipts", concurrency=2)
    async def send(job: TakenJob) -> None:
        await asyncio.sleep(0)
        handle_in_span(seen)

    async def request() -> None:
        async with await db.connect_async(url) as own:
            with recorded.tracer.start_as_current_span("request"):
                await mp.append(own, Message("Ordered", {}, topic="shop"))

    asyncio.run(request())
    order.run(until="caught_up")
    send.run(until="drained")
    handled, sent = recorded.span("process shop"), recorded.spans("process receipts")
    assert is_child(handled, recorded.span("request"))
    assert f"{context(handled).span_id:016x}" in stored(conn)[1]["traceparent"]
    assert [is_child(span, handled) for span in sent] == [True, True]
    assert set(seen) == {context(span).span_id for span in (handled, *sent)}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_checkpoints_at_least_once_has_its_span(
    mp: Milepost, conn: Connection, recorded: Recorded, is_async: bool
) -> None:
    seen: list[int] = []

    def handle(message: RecordedMessage) -> None:
        handle_in_span(seen)

    async def handle_async(message: RecordedMessage) -> None:
        handle_in_span(seen)

    handler = handle_async if is_async else handle
    processor = mp.processor("orders", handle="message", delivery="at_least_once", concurrency=3)(
        handler
    )
    with recorded.tracer.start_as_current_span("request"):
        mp.append(conn, *(Message("Ordered", n, key=str(n)) for n in range(5)))
    processor.run(until="caught_up")
    spans, request = recorded.spans("process default"), recorded.span("request")
    assert [is_child(span, request) for span in spans] == [True] * 5
    assert sorted(seen) == sorted(context(span).span_id for span in spans)


def test_retries_of_a_message_are_traces_of_their_own_that_link(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    tries: list[int] = []

    @mp.processor("orders", handle="message", retry=AT_ONCE)
    def order(message: RecordedMessage, tx: Connection) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")

    with recorded.tracer.start_as_current_span("request"):
        mp.append(conn, Message("Ordered", {}))
    order.run(until="caught_up")
    request, (first, *again) = recorded.span("request"), recorded.spans("process default")
    assert is_child(first, request)
    assert len(again) == 2
    for span in again:
        assert span.parent is None
        assert linked(span) == {context(request).span_id}
        assert context(span).trace_id != context(request).trace_id
    assert [span.status.status_code for span in (first, *again)] == [
        StatusCode.ERROR,
        StatusCode.ERROR,
        StatusCode.UNSET,
    ]
    (event,) = first.events
    assert event.attributes is not None
    assert event.attributes["exception.message"] == "not yet"
    assert first.attributes is not None
    assert first.attributes["error.type"] == "ValueError"


def test_a_replayed_message_links(mp: Milepost, conn: Connection, recorded: Recorded) -> None:
    processor = mp.processor("orders", handle="message")(nothing)
    with recorded.tracer.start_as_current_span("request"):
        mp.append(conn, Message("Ordered", {}))
    processor.run(until="caught_up")
    with conn.transaction():
        processor.reset("beginning", conn)
    processor.run(until="caught_up")
    request, (first, again) = recorded.span("request"), recorded.spans("process default")
    assert is_child(first, request)
    assert again.parent is None
    assert linked(again) == {context(request).span_id}


def test_retries_of_a_job_link_and_its_last_failure_is_an_error(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    @mp.worker("receipts", retry=AT_ONCE)
    def send(job: TakenJob) -> None:
        raise ValueError(f"attempt {job.attempt}")

    with recorded.tracer.start_as_current_span("request"):
        mp.put(conn, Job("receipts", max_attempts=2))
    send.run(until="drained")
    request, (first, again) = recorded.span("request"), recorded.spans("process receipts")
    assert conn.execute("select status::text from milepost.jobs").fetchall() == [("dead",)]
    assert is_child(first, request)
    assert again.parent is None
    assert linked(again) == {context(request).span_id}
    assert {span.status.status_code for span in (first, again)} == {StatusCode.ERROR}


@pytest.mark.parametrize("wish", [Defer(), Cancel()])
def test_a_job_that_ends_as_it_wishes_has_not_failed(
    mp: Milepost, conn: Connection, recorded: Recorded, wish: Exception
) -> None:
    @mp.worker("receipts")
    def send(job: TakenJob) -> None:
        if job.attempt == 1:
            raise wish

    with recorded.tracer.start_as_current_span("request"):
        mp.put(conn, Job("receipts"))
    send.run(until="drained")
    first = recorded.spans("process receipts")[0]
    assert first.status.status_code is StatusCode.UNSET
    assert not first.events


def test_a_batch_has_one_span_with_links(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    @mp.processor("orders")
    def processor(messages: list[RecordedMessage], tx: Connection) -> None:
        mp.put(tx, Job("receipts"))

    for name in ("one", "two"):
        with recorded.tracer.start_as_current_span(name):
            mp.append(conn, Message("Ordered", {}), Message("Ordered", {}))
    mp.append(conn, Message("Ordered", {}))
    processor.run(until="caught_up")
    batch = recorded.span("process orders")
    assert batch.parent is None
    assert linked(batch) == {context(recorded.span(name)).span_id for name in ("one", "two")}
    assert batch.attributes is not None
    assert batch.attributes["messaging.batch.message_count"] == 5
    assert f"{context(batch).span_id:016x}" in str(traces(conn)[0])


@pytest.mark.parametrize("is_async", [False, True])
def test_links_are_at_most_128(
    mp: Milepost, conn: Connection, recorded: Recorded, is_async: bool
) -> None:
    async def send_async(jobs: list[TakenJob]) -> None:
        """Nothing."""

    worker = mp.worker("receipts", handle="batch", batch=MOST_LINKS + 20)(
        send_async if is_async else nothing
    )
    with conn.transaction():
        for number in range(MOST_LINKS + 10):
            with recorded.tracer.start_as_current_span(f"request {number}"):
                mp.put(conn, Job("receipts"))
    worker.run(until="drained")
    spans = recorded.spans("process receipts")
    assert max(len(span.links) for span in spans) == MOST_LINKS == 128


def test_nothing_is_written_without_a_span(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    processor = mp.processor("orders", handle="message")(nothing)
    worker = mp.worker("receipts")(nothing)
    mp.append(conn, Message("Ordered", {}), Message("Ordered", {}, metadata={"by": "me"}))
    mp.put(conn, Job("receipts"), Job("receipts", priority=1))
    assert stored(conn) == [{}, {"by": "me"}]
    assert traces(conn) == [None, None]
    processor.run(until="caught_up")
    worker.run(until="drained")
    assert recorded.spans("process default") == recorded.spans("process receipts") == []


def test_what_a_caller_has_set_is_kept(mp: Milepost, conn: Connection, recorded: Recorded) -> None:
    with recorded.tracer.start_as_current_span("request"):
        mp.append(
            conn,
            Message("Ordered", {}, metadata={"traceparent": PARENT, "by": "me"}),
            Message("Ordered", {}, metadata={"by": "me"}),
        )
    own, other = stored(conn)
    assert own == {"traceparent": PARENT, "by": "me"}
    assert other["by"] == "me"
    assert f"{context(recorded.span('request')).trace_id:032x}" in other["traceparent"]
    mp.processor("orders", handle="message")(nothing).run(until="caught_up")
    assert f"{context(recorded.spans('process default')[0]).trace_id:032x}" in PARENT


@pytest.mark.parametrize("strange", ["", "00-nothing", 7, None, "ff" + PARENT[2:], PARENT + "-x"])
def test_what_is_not_a_trace_context_is_ignored(
    mp: Milepost, conn: Connection, recorded: Recorded, strange: object
) -> None:
    handled: list[int] = []
    processor = mp.processor("orders", handle="message")(lambda *_: handled.append(1))
    mp.append(conn, Message("Ordered", {}, metadata={"traceparent": strange}))
    processor.run(until="caught_up")
    assert handled == [1]
    assert recorded.spans("process default") == []


def _append(mp: Milepost, conn: Connection, count: int) -> list[Any]:
    mp.append(conn, *(Message("Ordered", n) for n in range(count)))
    return [(each["traceparent"], each.get("tracestate")) for each in stored(conn)]


def _put(mp: Milepost, conn: Connection, count: int, **more: Any) -> list[Any]:
    mp.put(conn, *(Job("receipts", n, **more) for n in range(count)))
    return [tuple(str(each).split(" ", 1)) for each in traces(conn)]


def _put_special(mp: Milepost, conn: Connection, count: int) -> list[Any]:
    return _put(mp, conn, count, priority=1)


def _put_unique(mp: Milepost, conn: Connection, count: int) -> list[Any]:
    mp.put(conn, *(Job("receipts", n, unique_key=str(n)) for n in range(count)))
    return [tuple(str(each).split(" ", 1)) for each in traces(conn)]


def _put_replacing(mp: Milepost, conn: Connection, count: int) -> list[Any]:
    keys = [str(number) for number in range(count)]
    with use_span(NonRecordingSpan(SpanContext(7, 7, is_remote=False))):
        mp.put(conn, *(Job("receipts", unique_key=key) for key in keys))
    mp.put(conn, *(Job("receipts", unique_key=key, replace=True) for key in keys))
    return [tuple(str(each).split(" ", 1)) for each in traces(conn)]


def _put_group(mp: Milepost, conn: Connection, count: int) -> list[Any]:
    mp.put_group(conn, [Job("receipts") for _ in range(count - 1)], then=Job("receipts"))
    return [tuple(str(each).split(" ", 1)) for each in traces(conn)]


@pytest.mark.parametrize("count", [1, 3, 300])
@pytest.mark.parametrize(
    "send", [_append, _put, _put_special, _put_unique, _put_replacing, _put_group]
)
def test_all_ways_write_the_trace_and_its_state(
    mp: Milepost,
    conn: Connection,
    send: Callable[[Milepost, Connection, int], list[Any]],
    count: int,
) -> None:
    state = TraceState([("vendor", "a b"), ("other", "1")])
    span = SpanContext(
        0x0AF7651916CD43DD8448EB211C80319C,
        0xB7AD6B7169203331,
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=state,
    )
    with use_span(NonRecordingSpan(span)):
        found = send(mp, conn, count)
    assert found == [(PARENT, "vendor=a b,other=1")] * count


def test_the_state_of_a_trace_reaches_the_handler(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    seen: list[str | None] = []

    @mp.worker("receipts")
    def send(job: TakenJob) -> None:
        seen.append(get_current_span().get_span_context().trace_state.get("vendor"))

    span = SpanContext(7, 7, is_remote=True, trace_state=TraceState([("vendor", "a b")]))
    with use_span(NonRecordingSpan(span)):
        mp.put(conn, Job("receipts"))
    send.run(until="drained")
    assert seen == ["a b"]


def test_a_trace_does_not_count_towards_the_size_of_a_message(
    url: str, conn: Connection, recorded: Recorded
) -> None:
    mp = Milepost(url, max_payload_bytes=20)
    with recorded.tracer.start_as_current_span("request"):
        mp.append(conn, Message("Ordered", "x" * 16))
    assert "traceparent" in stored(conn)[0]
