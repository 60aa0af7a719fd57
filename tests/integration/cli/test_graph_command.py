"""`milepost pipelines graph`: reads the application alone. Spark is not started."""

from __future__ import annotations

from tests.integration.cli.command import Cli

APPLICATION = "tests.integration.cli.application:mp"


def test_an_application_is_drawn(cli: Cli) -> None:
    drawn = cli.run("pipelines", "graph", APPLICATION)
    assert drawn.code == 0, drawn.stderr
    assert drawn.stdout.splitlines() == [
        "topic orders",
        "-> processor picky",
        "-> processor lenient",
        "channel chores",
        "-> worker chores",
    ]
    mermaid = cli.run("pipelines", "graph", APPLICATION, "--format", "mermaid").stdout
    assert mermaid.startswith('flowchart LR\n  n0[("topic orders")]')


def test_the_dashboard_reads_json(cli: Cli) -> None:
    document = cli.run("pipelines", "graph", APPLICATION, "--json").document()
    assert document.keys() == {"nodes", "edges", "cycles"}
    assert {"from": "topic:orders", "to": "processor:picky", "types": []} in document["edges"]


def test_an_empty_application_says_so(cli: Cli) -> None:
    drawn = cli.run("pipelines", "graph", "tests.integration.cli.application:empty")
    assert (drawn.code, "has no processors" in drawn.stdout) == (0, True)
