"""The alert rules and the board in deploy/ name metrics that exist; the rules do as they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES, BOARD = DEPLOY / "prometheus-rules.yaml", DEPLOY / "grafana-dashboard.json"
CASES = Path(__file__).parent / "prometheus-rules-test.yaml"
METRIC = re.compile(r"\bmilepost_\w+")
# The one list of what rules and board use. The exporter must have each of them.
EXPORTED = {
    "milepost_up",
    "milepost_archive_bytes",
    "milepost_archive_files",
    "milepost_archive_waiting_seconds",
    "milepost_dead_letters",
    "milepost_log_horizon_age_seconds",
    "milepost_log_horizon_lag_messages",
    "milepost_parked_keys",
    "milepost_pipeline_batch_seconds",
    "milepost_pipeline_lag_messages",
    "milepost_pipeline_lag_seconds",
    "milepost_pipeline_rebuild_progress_ratio",
    "milepost_pipeline_state",
    "milepost_processor_lag_messages",
    "milepost_processor_lag_seconds",
    "milepost_processor_oldest_gap_seconds",
    "milepost_processor_state",
    "milepost_queue_jobs",
    "milepost_queue_oldest_due_seconds",
    "milepost_retention_waiting_seconds",
    "milepost_segments",
}


def test_the_exporter_has_each_of_them() -> None:
    """With a sample, if everything that there can be is there."""
    exporter = pytest.importorskip("milepost.observe.prometheus")
    channel = filled(exporter.ChannelGauges, estimated=["ready"])
    pipeline = filled(exporter.PipelineGauges, state="running", phases_ms={"read": 1.0})
    found = exporter.Metrics(
        at=0.0,
        log=filled(exporter.LogGauges),
        processors=(filled(exporter.ProcessorGauges, state="running"),),
        segments=(filled(exporter.SegmentGauges),),
        pipelines=(pipeline,),
        queue=filled(exporter.QueueGauges, channels=(channel,), other=channel),
        retention=filled(exporter.RetentionGauges),
        document={},
    )
    families = exporter.Gauges(found, 0.0).collect()
    assert {family.name for family in families if family.samples} >= EXPORTED


def filled(record: Any, **given: Any) -> Any:
    return record(**{field.name: 1 for field in fields(record)} | given)


@pytest.mark.parametrize("file", [RULES, BOARD], ids=lambda file: file.name)
def test_every_metric_that_is_named_exists(file: Path) -> None:
    assert set(METRIC.findall(file.read_text())) <= EXPORTED


def test_the_board_shows_every_metric() -> None:
    shown = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert shown == EXPORTED


def test_the_board_is_whole() -> None:
    """Panels have numbers of their own, and do not lie on each other."""
    panels = json.loads(BOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [cell for panel in panels for cell in cells_of(panel["gridPos"])]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def expressions() -> Iterator[str]:
    for panel in json.loads(BOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))


def cells_of(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(place["x"], place["x"] + place["w"]):
        yield from ((x, y) for y in range(place["y"], place["y"] + place["h"]))


def promtool(*arguments: Any) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool (Debian: apt install prometheus)")
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_prometheus_accepts_the_rules() -> None:
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 rules found" in done.stdout


def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    done = promtool("test", "rules", cases(tmp_path, RULES.read_text()))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rule_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    """Or the test above would be true of any rules."""
    wrong = RULES.read_text().replace("lag_seconds > 300", "lag_seconds >= 300")
    assert promtool("test", "rules", cases(tmp_path, wrong)).returncode != 0


def cases(directory: Path, rules: str) -> Path:
    (directory / RULES.name).write_text(rules)
    (directory / CASES.name).write_text(CASES.read_text().replace("RULES", RULES.name))
    return directory / CASES.name


def test_every_alert_has_a_case() -> None:
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    assert len(alerts) == 10
    assert set(re.findall(r"alertname: (\w+)\n +exp_alerts", CASES.read_text())) == set(alerts)


def test_every_expression_of_the_board_is_one(tmp_path: Path) -> None:
    """As rules, so that Prometheus reads them."""
    found = list(expressions())
    rules = [{"record": f"r{n}", "expr": expression} for n, expression in enumerate(found)]
    file = tmp_path / "board.yaml"
    file.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))  # JSON is YAML
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
