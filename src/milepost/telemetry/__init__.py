"""OpenTelemetry: instruments and spans for what is appended, put and handled.

`otel` is None where `opentelemetry-api` is not installed. That is decided once, here. Then nothing
is measured, and nothing is called for a message or a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.telemetry.repeated import repeating

if TYPE_CHECKING:
    from milepost.telemetry.recorder import Otel

try:
    import opentelemetry.metrics
    import opentelemetry.trace  # noqa: F401 - whether both are there
except ImportError:
    otel: Otel | None = None
else:
    from milepost.telemetry import recorder

    otel = recorder.Otel()

__all__ = ["otel", "repeating"]
