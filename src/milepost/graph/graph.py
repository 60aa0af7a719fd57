"""Nodes and edges, and the order in which one feeds the next. Cycles are allowed: a pipeline may
read the topic that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "topic", "schedule", "processor", "pipeline", "table", "files", "channel", "worker"
]
EVERY = "*"  # the name of the topic that stands for all of them
# What a name alone means, if several nodes have it.
_FIRST: Sequence[Kind] = ("pipeline", "topic", "processor", "channel", "worker", "table")


@dataclass(frozen=True, slots=True)
class Node:
    kind: Kind
    name: str

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"

    def __str__(self) -> str:
        is_all = (self.kind, self.name) == ("topic", EVERY)
        return "every topic" if is_all else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Edge:
    """What `source` gives, `target` gets. `types`: only messages of these; empty: all."""

    source: Node
    target: Node
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def find(self, name: str) -> Node | None:
        """By its id (`topic:orders`), or by its name: a pipeline first, then a topic."""
        by_id = {node.id: node for node in self.nodes}
        wanted = [name, *(Node(kind, name).id for kind in _FIRST)]
        return next((by_id[each] for each in wanted if each in by_id), None)

    def following(self) -> Mapping[Node, Sequence[Edge]]:
        """The edges that leave each node."""
        found: dict[Node, list[Edge]] = {node: [] for node in self.nodes}
        for edge in self.edges:
            found[edge.source].append(edge)
        return found

    def downstream(self, start: Node) -> list[Node]:
        """The node and all that it feeds, directly or not. Each comes after those that feed it,
        unless they are on a cycle."""
        return _downstream(start, self.following())

    def cycles(self) -> list[tuple[Node, ...]]:
        """The nodes that feed themselves, together with those that are on the same cycles."""
        following = self.following()
        fed = {
            node: {n for edge in following[node] for n in _downstream(edge.target, following)}
            for node in self.nodes
        }
        found: list[tuple[Node, ...]] = []
        for node in self.nodes:
            if node in fed[node] and not any(node in cycle for cycle in found):
                found.append(tuple(n for n in fed[node] if node in fed[n]))
        return [tuple(n for n in self.nodes if n in cycle) for cycle in found]


def _downstream(start: Node, following: Mapping[Node, Sequence[Edge]]) -> list[Node]:
    """A node is finished when all that it feeds are: backwards, that is the order. Without
    recursion, so that a long chain does not exhaust the stack."""
    finished, seen = [], {start}
    path = [(start, iter(reversed(following[start])))]
    while path:
        node, edges = path[-1]
        edge = next((edge for edge in edges if edge.target not in seen), None)
        if edge is None:
            path.pop()
            finished.append(node)
        else:
            seen.add(edge.target)
            path.append((edge.target, iter(reversed(following[edge.target]))))
    return finished[::-1]
