"""Order and cycles, without an application."""

from __future__ import annotations

from itertools import pairwise

import pytest

from milepost.graph import Edge, Graph, Node


def topics(*pairs: str) -> Graph:
    """Edges between topics of one letter: `ab` is from a to b."""
    edges = [Edge(Node("topic", pair[0]), Node("topic", pair[1])) for pair in pairs]
    nodes = dict.fromkeys(node for edge in edges for node in (edge.source, edge.target))
    return Graph(tuple(nodes), tuple(edges))


def downstream(graph: Graph, start: str) -> str:
    return "".join(node.name for node in graph.downstream(Node("topic", start)))


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["ab"], "ab"),
        (["ab", "ac"], "abc"),
        (["ab", "ac", "cb"], "acb"),  # b after both that feed it
        (["ab", "bd", "ac", "cd", "de"], "abcde"),
        (["xa", "ab"], "ab"),  # not what feeds it
    ],
)
def test_what_is_downstream_comes_after_all_that_feed_it(pairs: list[str], expected: str) -> None:
    assert downstream(topics(*pairs), "a") == expected


@pytest.mark.parametrize(
    ("pairs", "cycles"),
    [
        (["ab", "bc"], []),
        (["ab", "ac", "bd", "cd"], []),
        (["aa"], ["a"]),
        (["ab", "ba"], ["ab"]),
        (["ab", "bc", "cb", "de", "ed"], ["bc", "de"]),
        (["ab", "ba", "bc", "cb"], ["abc"]),
    ],
)
def test_cycles_are_found_once(pairs: list[str], cycles: list[str]) -> None:
    found = topics(*pairs).cycles()
    assert ["".join(node.name for node in cycle) for cycle in found] == cycles


def test_a_cycle_ends() -> None:
    assert downstream(topics("ab", "bc", "ca", "cd"), "b") == "bcad"


def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    nodes = [Node("topic", str(number)) for number in range(5000)]
    edges = [Edge(a, b) for a, b in pairwise(nodes)]
    assert Graph(tuple(nodes), tuple(edges)).downstream(nodes[0]) == nodes


def test_a_name_is_a_pipeline_before_it_is_a_topic() -> None:
    pipeline, topic = Node("pipeline", "orders"), Node("topic", "orders")
    graph = Graph((topic, pipeline), ())
    assert graph.find("orders") == pipeline
    assert graph.find("topic:orders") == topic
    assert Graph((topic,), ()).find("orders") == topic
    assert graph.find("pipeline:nobody") is None
