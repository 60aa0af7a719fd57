"""How the members of an application feed each other, as far as they declare it. Pure."""

from milepost.graph.drawing import as_document, as_mermaid, as_text
from milepost.graph.graph import Edge, Graph, Node
from milepost.graph.members import graph_of

__all__ = ["Edge", "Graph", "Node", "as_document", "as_mermaid", "as_text", "graph_of"]
