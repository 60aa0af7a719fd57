"""What the rooms call: one object with the tracer and the instruments.

The names are those of OpenTelemetry's conventions for messaging. Where the application has set no
provider, OpenTelemetry's own instruments and spans do nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import attrgetter
from time import perf_counter, time_ns
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from milepost.telemetry import carried
from milepost.telemetry.processing import About, Processing, end, span_of

if TYPE_CHECKING:
    from collections.abc import Mapping


T = TypeVar("T")
Operation: TypeAlias = Literal["append", "put", "read", "take", "process"]
_TYPES = {"append": "send", "put": "send", "read": "receive", "take": "receive"}
# One call may put into thousands of channels. Above this they are counted together.
MOST_DESTINATIONS = 16
_topic, _channel = attrgetter("topic"), attrgetter("channel")


class Otel:
    def __init__(self) -> None:
        """The application may set its providers later: these follow it."""
        self._tracer = trace.get_tracer("milepost")
        meter = metrics.get_meter("milepost")
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            "{message}",
            "Messages appended and jobs put, by calls that returned.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Messages read by processors, and jobs taken by workers.",
        )
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of an append, a put, a read or a take.",
        )
        self._process = meter.create_histogram(
            "messaging.process.duration", "s", "Duration of a call of a handler."
        )

    def current(self) -> dict[str, str] | None:
        """What a message carries of the span that is current."""
        return carried.current()

    def current_text(self) -> str | None:
        """The same, for a job."""
        found = carried.current()
        return None if found is None else carried.as_text(found)

    def sent(
        self, operation: Literal["append", "put"], items: Sequence[Any], send: Callable[[], T]
    ) -> T:
        """What `send` returns; with an AsyncConnection, that is awaited and measured later."""
        began = perf_counter()
        try:
            result = send()
        except BaseException as error:
            self._failed(operation, began, error)
            raise
        if isinstance(result, CoroutineType):
            return self._sent_later(operation, items, result)  # type: ignore[return-value]  # T
        self._succeeded(operation, items, began)
        return result

    async def _sent_later(
        self, operation: Operation, items: Sequence[Any], sending: Awaitable[T]
    ) -> T:
        began = perf_counter()
        try:
            result = await sending
        except BaseException as error:
            self._failed(operation, began, error)
            raise
        self._succeeded(operation, items, began)
        return result

    def received(
        self,
        operation: Literal["read", "take"],
        count: int,
        began: float,
        destinations: Sequence[str] | None,
        group: str | None = None,
    ) -> None:
        """Of one read or take. `destinations`: the topics or the channel that were asked for."""
        name = destinations[0] if destinations and len(destinations) == 1 else None
        attributes = _attributes(operation, name, group)
        self._operation.record(perf_counter() - began, attributes)
        self._consumed.add(count, attributes)

    def about_processor(self, name: str, *, is_async: bool) -> About:
        return _about(name, None, name, is_async, *_collected(), ())

    def about_worker(
        self, pattern: str, *, is_async: bool, wishes: tuple[type[BaseException], ...]
    ) -> About:
        return _about(pattern, pattern, None, is_async, *_collected(), wishes)

    def processed(
        self, handler: Callable[..., Any], about: About, given: Any, *more: Any, **named: Any
    ) -> Any:
        """Call the handler, within its span; a coroutine if it is async. If there is nothing to
        record, it is called and nothing else: for an `async def`, one coroutine less."""
        span = span_of(self._tracer, about, given)
        if span is None and not about.is_measured:
            return handler(given, *more, **named)
        processing = Processing(about, self._process, span)
        if about.is_async:
            return _processed_async(processing, handler, given, *more, **named)
        with processing:
            return handler(given, *more, **named)

    @contextmanager
    def batch(
        self, pipeline: str, seconds_ago: float, origins: Callable[[], Sequence[Mapping[str, str]]]
    ) -> Iterator[None]:
        """Around the end of a Spark batch, which began so long ago. `origins` are the metadata of
        its messages. They are asked for only if the span is recorded."""
        began_ns = time_ns() - int(seconds_ago * 1e9)
        attributes = _attributes("process", None, pipeline)
        span = self._tracer.start_span(
            f"process {pipeline}", Context(), SpanKind.CONSUMER, attributes, start_time=began_ns
        )
        if span.is_recording():
            for link in carried.links(map(carried.of_message, origins())):
                span.add_link(link.context)
        error: BaseException | None = None
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            failed = {} if error is None else {"error.type": type(error).__qualname__}
            seconds = (time_ns() - began_ns) / 1e9
            self._process.record(seconds, {**attributes, **failed})
            end(span, error)

    def _succeeded(self, operation: Operation, items: Sequence[Any], began: float) -> None:
        seconds = perf_counter() - began
        name = _topic if operation == "append" else _channel
        if len(items) == 1:
            attributes = _attributes(operation, name(items[0]))
            self._sent.add(1, attributes)
            self._operation.record(seconds, attributes)
            return
        counts: dict[str | None, int] = dict(Counter(map(name, items)))
        if len(counts) > MOST_DESTINATIONS:
            counts = {None: len(items)}
        for destination, count in counts.items():
            self._sent.add(count, _attributes(operation, destination))
        only = next(iter(counts)) if len(counts) == 1 else None
        self._operation.record(seconds, _attributes(operation, only))

    def _failed(self, operation: Operation, began: float, error: BaseException) -> None:
        attributes = {**_attributes(operation), "error.type": type(error).__qualname__}
        self._operation.record(perf_counter() - began, attributes)


@lru_cache(maxsize=1024)
def _about(
    name: str,
    destination: str | None,
    group: str | None,
    is_async: bool,
    is_traced: bool,
    is_measured: bool,
    wishes: tuple[type[BaseException], ...],
) -> About:
    attributes = _attributes("process", destination, group)
    return About(name, attributes, is_async, is_traced, is_measured, wishes)


async def _processed_async(
    processing: Processing, handler: Callable[..., Any], *given: Any, **named: Any
) -> Any:
    with processing:
        return await handler(*given, **named)


def _collected() -> tuple[bool, bool]:
    """Whether the application has set a TracerProvider, and a MeterProvider. Those of the API
    collect nothing."""
    tracing, measuring = trace.get_tracer_provider(), metrics.get_meter_provider()
    return (
        not type(tracing).__module__.startswith("opentelemetry.trace"),
        not type(measuring).__module__.startswith("opentelemetry.metrics"),
    )


@lru_cache(maxsize=1024)
def _attributes(
    operation: Operation, destination: str | None = None, group: str | None = None
) -> dict[str, str]:
    """Shared by all who ask: OpenTelemetry does not change them."""
    attributes = {
        "messaging.system": "milepost",
        "messaging.operation.name": operation,
        "messaging.operation.type": _TYPES.get(operation, operation),
    }
    if destination is not None:
        is_pattern = destination.endswith("*")
        kind = "template" if is_pattern else "name"
        attributes[f"messaging.destination.{kind}"] = destination
    if group is not None:
        attributes["messaging.consumer.group.name"] = group
    return attributes
