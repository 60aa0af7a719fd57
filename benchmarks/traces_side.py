"""One process with OpenTelemetry on, idle or absent, that appends, processes or drains, and prints
how many a second.

`absent`: its import fails, as where it is not installed. `idle`: it is installed, no provider is
set. `on`: a TracerProvider with a BatchSpanProcessor whose exporter drops the spans, and a span is
current where messages are appended. No MeterProvider in any of them.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import TracerProvider

    from milepost.records import RecordedMessage, TakenJob

Side: TypeAlias = Literal["absent", "idle", "on"]
Work: TypeAlias = Literal["append", "process", "drain"]
BATCH = 500


def run(side: Side, work: Work, url: str, number: int) -> float:
    """In a process of its own: what is imported decides."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.traces_side", side, work, url, str(number)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(ran.stdout)


def _main(side: Side, work: Work, url: str, number: int) -> None:
    if side == "absent":
        sys.modules["opentelemetry"] = None  # type: ignore[assignment]  # an import of it fails
    works: dict[Work, Callable[[str, int], float]] = {
        "append": _append,
        "process": _process,
        "drain": _drain,
    }
    if side != "on":
        print(works[work](url, number))
        return
    from opentelemetry import trace

    provider = _provider()
    with trace.get_tracer("benchmark").start_as_current_span("request"):
        print(works[work](url, number))
    provider.shutdown()


def _provider() -> TracerProvider:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        SpanExporter,
        SpanExportResult,
    )

    class Dropping(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:  # noqa: ARG002
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)
    return provider


def _append(url: str, number: int) -> float:
    from benchmarks import sample
    from benchmarks.rounds import per_second
    from milepost import append, db

    messages = sample.orders(number)
    with db.connect(url) as conn:

        def work() -> None:
            for message in messages:
                append(conn, message)

        return per_second(number, work)


def _process(url: str, number: int) -> float:
    from benchmarks.rounds import per_second
    from milepost import Milepost

    mp = Milepost(url)
    processor = mp.processor(f"traces-{uuid4().hex}", batch_size=BATCH)(_nothing)
    return per_second(number, lambda: processor.run(until="caught_up"))


def _drain(url: str, number: int) -> float:
    from benchmarks.rounds import per_second
    from milepost import Milepost

    mp = Milepost(url)
    mp.worker("*")(_handle)
    return per_second(number, lambda: mp.run(until="drained"))


def _nothing(messages: list[RecordedMessage], tx: object) -> None:
    """Nothing."""


async def _handle(job: TakenJob) -> None:
    """Nothing."""


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))  # type: ignore[arg-type]
