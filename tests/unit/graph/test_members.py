"""What an application declares, as edges."""

from __future__ import annotations

from datetime import timedelta

import pytest

from milepost import (
    Append,
    Files,
    Job,
    Milepost,
    RecordedMessage,
    Repeat,
    TakenJob,
    ToLog,
    ToQueue,
    Upsert,
)
from milepost.errors import UnknownPipeline
from milepost.graph import Graph, graph_of
from milepost.pipeline.definition import PipelineOptions
from milepost.pipeline.sinks import Sink
from milepost.processors import ProcessorOptions
from milepost.queue import WorkerOptions


def pipeline(name: str, sink: Sink, topics: list[str] | None) -> PipelineOptions:
    return PipelineOptions(name, sink, topics=topics)


def edges(graph: Graph) -> list[str]:
    return [f"{edge.source.id} -> {edge.target.id}" for edge in graph.edges]


@pytest.mark.parametrize(
    ("sink", "node"),
    [
        (Upsert("shop.days", key=["day"]), "table:shop.days"),
        (Append("days"), "table:days"),
        (ToLog("echoes"), "topic:echoes"),
        (ToQueue("emails"), "channel:emails"),
        (Files("s3://key:secret@bucket/x"), "files:of p"),
    ],
)
def test_a_pipeline_feeds_its_sink(sink: Sink, node: str) -> None:
    found = graph_of(pipelines=[pipeline("p", sink, ["orders"])])
    assert edges(found) == ["topic:orders -> pipeline:p", f"pipeline:p -> {node}"]


def test_a_processor_reads_its_topics_and_types() -> None:
    options = ProcessorOptions("billing", topics=["orders", "refunds"], types=["Placed"])
    found = graph_of([options])
    assert edges(found) == [
        "topic:orders -> processor:billing",
        "topic:refunds -> processor:billing",
    ]
    assert {edge.types for edge in found.edges} == {("Placed",)}


def test_what_is_written_to_a_topic_reaches_those_that_read_all() -> None:
    found = graph_of([ProcessorOptions("audit")], [pipeline("p", ToLog("echoes"), ["orders"])])
    assert edges(found) == [
        "topic:* -> processor:audit",
        "topic:orders -> pipeline:p",
        "pipeline:p -> topic:echoes",
        "topic:orders -> topic:*",
        "topic:echoes -> topic:*",
    ]


def test_a_pipeline_that_reads_what_it_writes_is_a_cycle() -> None:
    (cycle,) = graph_of(pipelines=[pipeline("echo", ToLog("echoes"), None)]).cycles()
    assert {node.id for node in cycle} == {"topic:*", "pipeline:echo", "topic:echoes"}


def test_a_channel_feeds_the_workers_of_its_name_and_of_its_patterns() -> None:
    found = graph_of(
        pipelines=[pipeline("p", ToQueue("tenant.a"), ["orders"])],
        workers=[WorkerOptions("tenant.*"), WorkerOptions("emails")],
        schedules={"nightly": "emails"},
    )
    assert edges(found) == [
        "topic:orders -> pipeline:p",
        "pipeline:p -> channel:tenant.a",
        "schedule:nightly -> channel:emails",
        "channel:tenant.* -> worker:tenant.*",
        "channel:emails -> worker:emails",
        "channel:tenant.a -> worker:tenant.*",
    ]


def test_handlers_may_declare_what_they_feed() -> None:
    found = graph_of(
        [ProcessorOptions("billing", topics=["orders"], feeds=["topic:bills", "channel:emails"])],
        workers=[WorkerOptions("emails", feeds=["topic:sent"])],
    )
    assert edges(found) == [
        "topic:orders -> processor:billing",
        "processor:billing -> topic:bills",
        "processor:billing -> channel:emails",
        "channel:emails -> worker:emails",
        "worker:emails -> topic:sent",
    ]


@pytest.mark.parametrize("feeds", ["topic:bills", ["bills"], ["topic:"], ["table:bills"]])
def test_feeds_that_say_nothing_are_refused(feeds: list[str]) -> None:
    with pytest.raises(ValueError, match="expected"):
        ProcessorOptions("billing", feeds=feeds)
    with pytest.raises(ValueError, match="expected"):
        WorkerOptions("emails", feeds=feeds)


def application() -> Milepost:
    mp = Milepost("postgresql://nowhere")

    @mp.processor("billing", topics=["orders"])
    def billing(messages: list[RecordedMessage], tx: object) -> None: ...

    @mp.worker("emails")
    def emails(job: TakenJob) -> None: ...

    mp.schedule("nightly", Repeat(timedelta(days=1)), Job("emails", {}))
    mp.pipeline("echo", topics=["orders"], sink=ToLog("echoes"))(lambda messages: messages)
    mp.pipeline("late", topics=["echoes"], sink=Append("late"))(lambda messages: messages)
    mp.pipeline("days", topics=["orders"], sink=Append("days"))(lambda messages: messages)
    return mp


def test_an_application_has_all_its_members() -> None:
    kinds = {node.kind for node in application().graph().nodes}
    assert kinds == {
        "topic", "processor", "pipeline", "table", "channel", "worker", "schedule"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", ["echo", "late", "days"]),
        ("echo", ["echo", "late"]),
        ("topic:echoes", ["late"]),
        ("days", ["days"]),
        ("emails", []),
    ],
)
def test_pipelines_downstream_of_a_name(name: str, expected: list[str]) -> None:
    assert [found.name for found in application().downstream(name)] == expected


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownPipeline, match=r"days, echo, late, topic:echoes, topic:orders"):
        application().downstream("nobody")
