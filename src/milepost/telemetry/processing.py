"""The call of a handler: its span, which is current while it runs, and its duration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanKind,
    Status,
    StatusCode,
    set_span_in_context,
)

from milepost.records import RecordedMessage
from milepost.telemetry import carried
from milepost.telemetry.repeated import is_repeated

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.metrics import Histogram
    from opentelemetry.trace import Span, SpanContext, Tracer

    from milepost.records import TakenJob

_NOWHERE = Context()  # without a span: what begins here is a trace of its own


@dataclass(frozen=True, slots=True)
class About:
    """What all calls of one handler have in common. `name`: of the processor, or the channels of
    the worker. `is_traced`, `is_measured`: somebody collects the spans, and the durations.
    `wishes`: exceptions that are no failures."""

    name: str
    attributes: Mapping[str, str]
    is_async: bool
    is_traced: bool
    is_measured: bool
    wishes: tuple[type[BaseException], ...] = ()


class Processing:
    """Around one call. Not a generator with @contextmanager, which takes three times as long.
    Without a span, only measured."""

    __slots__ = ("_about", "_began", "_duration", "_span", "_token")

    def __init__(self, about: About, duration: Histogram, span: Span | None) -> None:
        self._about, self._duration, self._span = about, duration, span

    def __enter__(self) -> None:
        if self._span is not None:
            self._token = attach(set_span_in_context(self._span))
        self._began = perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        seconds = perf_counter() - self._began
        attributes = self._about.attributes
        if error is not None and isinstance(error, self._about.wishes):
            error = None
        if error is not None:
            attributes = {**attributes, "error.type": type(error).__qualname__}
        self._duration.record(seconds, attributes)
        if self._span is not None:
            detach(self._token)
            end(self._span, error)


def end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        span.record_exception(error)
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.end()


def span_of(tracer: Tracer, about: About, given: Any) -> Span | None:
    """None where nothing that is given belongs to a trace. Of one message, also where nobody
    collects spans: then the trace goes on behind this process."""
    if isinstance(given, list):
        return _span_of_list(tracer, about, given) if about.is_traced else None
    if isinstance(given, RecordedMessage):
        if (origin := carried.of_message(given.metadata)) is None:
            return None
        return _span_of_one(tracer, about, origin, given.topic, given.id, _again(given))
    if (origin := carried.of_job(given.trace)) is None:
        return None
    return _span_of_one(tracer, about, origin, given.channel, given.id, given.attempt > 1)


def _again(message: RecordedMessage) -> bool:
    return message.replaying or is_repeated()


def _span_of_one(
    tracer: Tracer,
    about: About,
    origin: SpanContext,
    destination: str,
    id_: object,
    is_again: bool,
) -> Span:
    attributes = {
        **about.attributes,
        "messaging.destination.name": destination,
        "messaging.message.id": str(id_),
    }
    if is_again:
        context, links = _NOWHERE, carried.links([origin])
    else:
        context, links = set_span_in_context(NonRecordingSpan(origin), _NOWHERE), None
    return tracer.start_span(
        f"process {destination}", context, SpanKind.CONSUMER, attributes, links
    )


def _span_of_list(
    tracer: Tracer, about: About, given: list[RecordedMessage] | list[TakenJob]
) -> Span | None:
    links = carried.links(_origins(given))
    if not links:
        return None
    attributes: dict[str, str | int] = {
        **about.attributes,
        "messaging.batch.message_count": len(given),
    }
    return tracer.start_span(
        f"process {about.name}", _NOWHERE, SpanKind.CONSUMER, attributes, links
    )


def _origins(given: list[RecordedMessage] | list[TakenJob]) -> Iterator[SpanContext | None]:
    """Most belong to no trace, and a batch has hundreds: little is done for each of those."""
    for each in given:
        if isinstance(each, RecordedMessage):
            if carried.PARENT in each.metadata:
                yield carried.of_message(each.metadata)
        elif each.trace is not None:
            yield carried.of_job(each.trace)
