"""What the listings of pipelines say of rows and messages that were not written."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from milepost.cli.commands.pipelines import print_pipelines
from milepost.cli.following import print_versions
from tests.unit.health.test_followers import PIPELINE

EXPECTATIONS = [
    {"name": "day is known", "passed": 1500, "violated": 0},
    {"name": "total is positive", "passed": 1497, "violated": 3},
]
STATUS = replace(PIPELINE, dead_letters=2, expectations=EXPECTATIONS, rejected="public.t__rejected")


def test_one_pipeline_is_shown_with_all_its_expectations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_versions("revenue", [STATUS], as_json=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "expectation 'day is known' 1,500 passed, 0 violated" in text
    assert "expectation 'total is positive' 1,497 passed, 3 violated" in text
    assert "dead_letters 2" in text
    print_versions("revenue", [STATUS], as_json=True)
    (document,) = json.loads(capsys.readouterr().out)
    assert document["expectations"] == EXPECTATIONS
    assert document["rejected"] == "public.t__rejected"


def test_the_listing_says_only_what_needs_attention(capsys: pytest.CaptureFixture[str]) -> None:
    print_pipelines([STATUS])
    out = capsys.readouterr().out
    assert "revenue v1: 2 dead letters" in out
    assert "revenue v1: expectation 'total is positive': 1,497 passed, 3 violated" in out
    assert "day is known" not in out
