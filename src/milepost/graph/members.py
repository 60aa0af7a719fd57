"""The graph of an application, from what its members declare: topics and types that they read,
sinks, channels, and what handlers say that they feed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from milepost.graph.graph import EVERY, Edge, Graph, Kind, Node
from milepost.pipeline.sinks import Files, ToLog, ToQueue
from milepost.queue import covers

if TYPE_CHECKING:
    from milepost.pipeline.definition import PipelineOptions
    from milepost.processors import ProcessorOptions
    from milepost.queue import WorkerOptions


def graph_of(
    processors: Iterable[ProcessorOptions] = (),
    pipelines: Iterable[PipelineOptions] = (),
    workers: Iterable[WorkerOptions] = (),
    schedules: Mapping[str, str] | None = None,
) -> Graph:
    """`schedules`: the channel of each."""
    known, edges = list(workers), list[Edge]()
    for each in processors:
        edges += [*_reads("processor", each), *_feeds(Node("processor", each.name), each.feeds)]
    for pipeline in pipelines:
        edges += [*_reads("pipeline", pipeline), _writes(pipeline)]
    for name, channel in (schedules or {}).items():
        edges += [Edge(Node("schedule", name), Node("channel", channel))]
    for worker in known:
        node = Node("worker", worker.channel)
        edges += [Edge(Node("channel", worker.channel), node), *_feeds(node, worker.feeds)]
    edges += [*_into_every(edges), *_into_patterns(edges, [each.channel for each in known])]
    nodes = dict.fromkeys(node for edge in edges for node in (edge.source, edge.target))
    return Graph(tuple(nodes), tuple(dict.fromkeys(edges)))


def _reads(kind: Kind, options: ProcessorOptions | PipelineOptions) -> Iterator[Edge]:
    for topic in options.topics or [EVERY]:
        types = () if options.types is None else tuple(options.types)
        yield Edge(Node("topic", topic), Node(kind, options.name), types)


def _feeds(node: Node, feeds: Sequence[str]) -> Iterator[Edge]:
    for each in feeds:
        kind, _, name = each.partition(":")
        yield Edge(node, Node("topic" if kind == "topic" else "channel", name))


def _writes(options: PipelineOptions) -> Edge:
    return Edge(Node("pipeline", options.name), _sink(options))


def _sink(options: PipelineOptions) -> Node:
    sink = options.sink
    if isinstance(sink, ToLog):
        return Node("topic", sink.topic)
    if isinstance(sink, ToQueue):
        return Node("channel", sink.channel)
    if isinstance(sink, Files):
        return Node("files", f"of {options.name}")  # a path may contain a secret of its storage
    return Node("table", str(options.table))


def _into_every(edges: Sequence[Edge]) -> Iterator[Edge]:
    """What is in a topic is among the messages of every topic, for those that read all."""
    every = Node("topic", EVERY)
    if any(edge.source == every for edge in edges):
        for node in _nodes(edges, "topic"):
            if node != every:
                yield Edge(node, every)


def _into_patterns(edges: Sequence[Edge], patterns: Sequence[str]) -> Iterator[Edge]:
    """A worker of `tenant.*` takes the jobs of `tenant.a`."""
    for node in _nodes(edges, "channel"):
        for pattern in patterns:
            if node.name != pattern and covers(pattern, node.name):
                yield Edge(node, Node("worker", pattern))


def _nodes(edges: Sequence[Edge], kind: Kind) -> list[Node]:
    nodes = dict.fromkeys(node for edge in edges for node in (edge.source, edge.target))
    return [node for node in nodes if node.kind == kind]
