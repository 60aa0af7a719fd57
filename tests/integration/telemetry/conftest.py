"""Spans and measurements of a test, in memory. OpenTelemetry's providers are set once a process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from milepost.sql import LogOrder


@pytest.fixture
def order() -> LogOrder:
    """None of these tests is about positions."""
    return "append"


@dataclass(frozen=True, slots=True)
class Recorded:
    tracer: Tracer
    _spans: InMemorySpanExporter
    _metrics: InMemoryMetricReader

    def spans(self, name: str) -> list[ReadableSpan]:
        """Those that have ended, in the order of their beginnings."""
        found = [span for span in self._spans.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def span(self, name: str) -> ReadableSpan:
        (only,) = self.spans(name)
        return only

    def measured(self, name: str, **attributes: str) -> list[Any]:
        """The data points of an instrument with these attributes; a dot is two underscores."""
        wanted = {f"messaging.{key.replace('__', '.')}": value for key, value in attributes.items()}
        data = self._metrics.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
            if wanted.items() <= dict(point.attributes or {}).items()
        ]


@cache
def _providers() -> Recorded:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
    return Recorded(trace.get_tracer("test"), exporter, reader)


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    found = _providers()
    found._spans.clear()
    yield found
    found._spans.clear()
