"""Text, Mermaid and JSON of a small graph."""

from __future__ import annotations

from milepost import Append, ToLog
from milepost.graph import as_document, as_mermaid, as_text, graph_of
from milepost.pipeline.definition import PipelineOptions
from milepost.processors import ProcessorOptions

SMALL = graph_of(
    [ProcessorOptions("billing", topics=["orders"], types=["Placed"])],
    [
        PipelineOptions("echo", ToLog("echoes"), topics=["orders"]),
        PipelineOptions("late", Append("late"), topics=["echoes", "orders"]),
    ],
)


def test_text_is_a_tree_that_draws_each_node_once() -> None:
    assert as_text(SMALL).splitlines() == [
        "topic orders",
        "-> processor billing (Placed)",
        "-> pipeline echo",
        "   -> topic echoes",
        "      -> pipeline late",
        "         -> table late",
        "-> pipeline late ...",
    ]


def test_a_cycle_is_drawn_and_named() -> None:
    text = as_text(graph_of(pipelines=[PipelineOptions("echo", ToLog("echoes"))]))
    assert text.splitlines() == [
        "every topic",
        "-> pipeline echo",
        "   -> topic echoes",
        "      -> every topic ...",
        "a cycle: every topic, pipeline echo, topic echoes",
    ]


def test_mermaid_has_a_shape_for_each_node() -> None:
    assert as_mermaid(SMALL).splitlines() == [
        "flowchart LR",
        '  n0[("topic orders")]',
        '  n1["processor billing"]',
        '  n2[["pipeline echo"]]',
        '  n3[("topic echoes")]',
        '  n4[["pipeline late"]]',
        '  n5[("table late")]',
        '  n0 -->|"Placed"| n1',
        "  n0 --> n2",
        "  n2 --> n3",
        "  n3 --> n4",
        "  n0 --> n4",
        "  n4 --> n5",
    ]


def test_a_name_cannot_break_out_of_its_quotes() -> None:
    odd = graph_of([ProcessorOptions('a"]<b>\n', topics=["#t"])])
    assert '["processor a#34;]#60;b#62;#10;"]' in as_mermaid(odd)
    assert '[("topic #35;t")]' in as_mermaid(odd)


def test_json_names_nodes_by_their_ids() -> None:
    document = as_document(SMALL)
    assert document["nodes"][0] == {"id": "topic:orders", "kind": "topic", "name": "orders"}
    assert document["edges"][0] == {
        "from": "topic:orders",
        "to": "processor:billing",
        "types": ["Placed"],
    }
    assert document["cycles"] == []
