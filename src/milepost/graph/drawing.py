"""A graph as text for a terminal, as Mermaid, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from milepost.graph.graph import Edge, Graph, Kind, Node

# What stands before and after the name of each kind of node in Mermaid.
_SHAPES: Mapping[Kind, tuple[str, str]] = {
    "topic": ("[(", ")]"),
    "schedule": ("([", "])"),
    "processor": ("[", "]"),
    "pipeline": ("[[", "]]"),
    "table": ("[(", ")]"),
    "files": ("[/", "/]"),
    "channel": ("{{", "}}"),
    "worker": ("[", "]"),
}


def as_text(graph: Graph) -> str:
    """A tree from each node that nothing feeds. What was drawn before is not drawn again."""
    following = graph.following()
    drawn: set[Node] = set()
    fed = {edge.target for edge in graph.edges}
    roots = [node for node in graph.nodes if node not in fed]
    lines: list[str] = []
    for root in (*roots, *graph.nodes):  # a cycle may have no root
        if root not in drawn:
            lines += _tree(root, following, drawn)
    lines += [f"a cycle: {', '.join(map(str, cycle))}" for cycle in graph.cycles()]
    return "\n".join(lines)


def _tree(root: Node, following: Mapping[Node, Sequence[Edge]], drawn: set[Node]) -> Iterator[str]:
    left: list[tuple[int, Node, tuple[str, ...]]] = [(0, root, ())]
    while left:
        depth, node, types = left.pop()
        again = node in drawn and bool(following[node])
        only = f" ({', '.join(types)})" if types else ""
        arrow = "-> " if depth else ""
        yield f"{'   ' * (depth - 1)}{arrow}{node}{only}{' ...' if again else ''}"
        if not again:
            drawn.add(node)
            left += [(depth + 1, e.target, e.types) for e in reversed(following[node])]


def as_mermaid(graph: Graph) -> str:
    numbers = {node: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for node, number in numbers.items():
        before, after = _SHAPES[node.kind]
        lines.append(f'  {number}{before}"{_escaped(str(node))}"{after}')
    for edge in graph.edges:
        label = f'|"{_escaped(", ".join(edge.types))}"|' if edge.types else ""
        lines.append(f"  {numbers[edge.source]} -->{label} {numbers[edge.target]}")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Names may have any characters. Mermaid writes these by their numbers."""
    return "".join(c if c.isprintable() and c not in '"#<>&`\\' else f"#{ord(c)};" for c in text)


def as_document(graph: Graph) -> dict[str, Any]:
    return {
        "nodes": [{"id": n.id, "kind": n.kind, "name": n.name} for n in graph.nodes],
        "edges": [
            {"from": e.source.id, "to": e.target.id, "types": list(e.types)} for e in graph.edges
        ],
        "cycles": [[node.id for node in cycle] for cycle in graph.cycles()],
    }
