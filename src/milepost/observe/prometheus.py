"""The gauges for Prometheus, by prometheus-client, which is an extra.

The number of label values is bounded: the first channels have a name, the others are `other`.
While the database does not answer, a scrape still does, with `milepost_up 0`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import psycopg

from milepost.errors import MetricsNotInstalled, MilepostError
from milepost.log.diagnose import limited
from milepost.observe.metrics import (
    ChannelGauges,
    LogGauges,
    Metrics,
    PipelineGauges,
    ProcessorGauges,
    QueueGauges,
    RetentionGauges,
    SegmentGauges,
    look,
)

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector, CollectorRegistry
except ImportError as error:
    raise MetricsNotInstalled from error

if TYPE_CHECKING:
    from milepost.db import Connection

Connect: TypeAlias = Callable[[], AbstractContextManager["Connection"]]
LOOK_SECONDS = 5.0  # Prometheus gives up after 10
OTHER = "other"
_JOB_STATES = ("ready", "scheduled", "waiting", "running", "dead")
_SEGMENT_STATES = ("claimed", "unclaimed", "wanted", "failing")
log = logging.getLogger("milepost.metrics")


def render(
    connect: Connect, schema: str, accept: str = "", seconds: float = LOOK_SECONDS
) -> tuple[bytes, str]:
    """What a scrape is answered, and its content type: `render(mp.connect, mp.schema)`. `accept`:
    the header of the request. `seconds`: how long each statement may take."""

    def look_once() -> Metrics:
        with connect() as conn, limited(conn, seconds):
            return look(conn, schema)

    return encode(look_once, accept)


def encode(take: Callable[[], Metrics], accept: str = "") -> tuple[bytes, str]:
    """As `render`, of what `take` looks at."""
    began = time.perf_counter()
    found = _taken(take)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Gauges(found, time.perf_counter() - began))
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


def _taken(take: Callable[[], Metrics]) -> Metrics | None:
    """None if the database does not answer, or not with metrics; the log says why. An error of
    libpq names the host, the port and the user, and never the password."""
    try:
        return take()
    except (MilepostError, psycopg.Error) as error:
        log.warning("no metrics: %s", " ".join(str(error).split()))
        return None


@dataclass(frozen=True, slots=True, eq=False)  # a registry keeps it by its identity
class Gauges(Collector):
    """What was found, as families of samples. None: the database did not answer."""

    found: Metrics | None
    scrape_seconds: float

    def collect(self) -> Iterator[Metric]:
        found = self.found
        yield _single("up", "Whether the database answers.", float(found is not None))
        yield _single("scrape_seconds", "How long the look took.", self.scrape_seconds)
        if found is None:
            return
        if found.log is not None:
            yield from _log(found.log)
        yield from _processors(found.processors)
        yield _segments(found.segments)
        yield from _pipelines([p for p in found.pipelines if p.state != "kept"])
        yield _dead_letters(found)
        if found.queue is not None:
            yield from _queue(found.queue)
        if found.retention is not None:
            yield from _retention(found.retention)


def _log(found: LogGauges) -> Iterator[Metric]:
    yield _single("log_messages", "Messages in the table, estimated.", found.messages)
    yield _single(
        "log_newest_age_seconds", "The age of the newest message.", found.newest_age_seconds
    )
    yield _single(
        "log_oldest_age_seconds", "The age of the oldest message in the table.",
        found.oldest_age_seconds,
    )  # fmt: skip
    yield _single(
        "log_horizon_lag_messages", "Messages above the horizon, which nobody reads yet.",
        found.horizon_lag_messages,
    )  # fmt: skip
    yield _single(
        "log_horizon_age_seconds", "Since when the horizon is held back; 0: it is not.",
        found.horizon_age_seconds,
    )  # fmt: skip


def _processors(found: Iterable[ProcessorGauges]) -> Iterator[Metric]:
    labels = ["processor", "version"]
    lag = _gauge("processor_lag_messages", "Messages not processed yet.", labels)
    seconds = _gauge("processor_lag_seconds", "Age of the first message not processed.", labels)
    gap = _gauge(
        "processor_oldest_gap_seconds", "Age of the first message handled and not durable.", labels
    )
    handled = CounterMetricFamily(
        "milepost_processor_handled_messages", "Messages handled, as reported.", labels=labels
    )
    states = _gauge("processor_state", "1 for the state it is in.", [*labels, "state"])
    parked = _gauge("parked_keys", "Keys whose messages are set aside.", labels)
    for each in found:
        names = [each.name, str(each.version)]
        lag.add_metric(names, each.lag_messages)
        seconds.add_metric(names, each.lag_seconds)
        gap.add_metric(names, each.oldest_gap_seconds)
        handled.add_metric(names, each.handled)
        states.add_metric([*names, each.state], 1)
        parked.add_metric(names, each.parked_keys)
    yield from (lag, seconds, gap, handled, states, parked)


def _segments(found: Iterable[SegmentGauges]) -> Metric:
    family = _gauge(
        "segments", "Segments of a processor by state.", ["processor", "version", "state"]
    )
    for each in found:
        for state in _SEGMENT_STATES:
            family.add_metric([each.processor, str(each.version), state], getattr(each, state))
    return family


def _pipelines(found: Iterable[PipelineGauges]) -> Iterator[Metric]:
    labels = ["pipeline", "version"]
    lag = _gauge("pipeline_lag_messages", "Messages not written yet.", labels)
    seconds = _gauge("pipeline_lag_seconds", "Age of the first message not written.", labels)
    phases = _gauge("pipeline_batch_seconds", "Phases of the last batch.", [*labels, "phase"])
    progress = _gauge(
        "pipeline_rebuild_progress_ratio", "How much of the log a rebuild has passed.", labels
    )
    states = _gauge("pipeline_state", "1 for the state it is in.", [*labels, "state"])
    for each in found:
        names = [each.name, str(each.version)]
        lag.add_metric(names, each.lag_messages)
        seconds.add_metric(names, each.lag_seconds)
        states.add_metric([*names, each.state], 1)
        for phase, milliseconds in sorted((each.phases_ms or {}).items()):
            phases.add_metric([*names, phase], milliseconds / 1000)
        if each.progress is not None:
            progress.add_metric(names, each.progress)
    yield from (lag, seconds, phases, progress, states)


def _dead_letters(found: Metrics) -> Metric:
    """Those of pipelines too: they have the pipeline's name."""
    family = _gauge("dead_letters", "Dead letters, up to 10,000.", ["processor", "version"])
    followers: tuple[ProcessorGauges | PipelineGauges, ...] = (*found.processors, *found.pipelines)
    for each in followers:
        family.add_metric([each.name, str(each.version)], each.dead_letters)
    return family


def _queue(found: QueueGauges) -> Iterator[Metric]:
    jobs = _gauge("queue_jobs", "Jobs of the first channels, by state.", ["channel", "state"])
    overdue = _gauge("queue_overdue_jobs", "Scheduled jobs that are due.", ["channel"])
    estimates = _gauge("queue_estimated_states", "States whose jobs are estimated.", ["channel"])
    due = _gauge("queue_oldest_due_seconds", "For how long a job is due.", ["channel"])
    rates = _gauge("queue_rate", "Attempts that end a second.", ["channel"])
    numbers: Counter[tuple[str, str]] = Counter()
    late: Counter[str] = Counter()
    estimated: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    speeds: dict[str, float] = {}
    for each in _channels(found):
        name = OTHER if each.name is None else each.name  # a channel may be called `other`, too
        for state in _JOB_STATES:
            numbers[name, state] += getattr(each, state)
        late[name] += each.overdue
        estimated[name] += len(each.estimated)
        oldest[name] = max(oldest.get(name, 0.0), each.oldest_due_seconds or 0.0)
        speeds[name] = speeds.get(name, 0.0) + each.rate
    for (name, state), number in numbers.items():
        jobs.add_metric([name, state], number)
    for name, seconds in oldest.items():
        due.add_metric([name], seconds)
        rates.add_metric([name], speeds[name])
        overdue.add_metric([name], late[name])
        estimates.add_metric([name], estimated[name])
    yield from (jobs, overdue, estimates, due, rates)
    yield _single("queue_channels", "Channels that have jobs.", found.channel_count)


def _channels(found: QueueGauges) -> Iterator[ChannelGauges]:
    yield from found.channels
    if found.other.channels:
        yield found.other


def _retention(found: RetentionGauges) -> Iterator[Metric]:
    waiting = "For how long a message is old enough to be {}, and is not."
    yield _single(
        "retention_waiting_seconds", waiting.format("removed"), found.removal_waiting_seconds or 0
    )
    yield _single("archive_files", "Files of the archive.", found.archive_files)
    yield _single("archive_messages", "Messages in the archive.", found.archive_messages)
    yield _single("archive_bytes", "The size of the archive.", found.archive_bytes)
    if found.has_archive:
        yield _single(
            "archive_waiting_seconds", waiting.format("archived"),
            found.archive_waiting_seconds or 0,
        )  # fmt: skip


def _gauge(name: str, what: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"milepost_{name}", what, labels=labels)


def _single(name: str, what: str, value: float | None) -> GaugeMetricFamily:
    """Without a sample if the value is not known."""
    family = GaugeMetricFamily(f"milepost_{name}", what)
    if value is not None:
        family.add_metric([], value)
    return family
