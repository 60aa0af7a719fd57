"""What forms do with pipelines and their versions."""

from __future__ import annotations

import pytest

from milepost.db import Connection
from tests import operated
from tests.integration.ui.operating import Operator

SHOWN = "select version from milepost.pipelines where is_active"
VIEW = "select pg_get_viewdef('reports.revenue'::regclass) ~ 'revenue__v1'"


@pytest.fixture(autouse=True)
def _pipeline(conn: Connection) -> None:
    operated.pipeline(conn)


def test_a_pipeline_is_paused_and_resumed(operator: Operator) -> None:
    operator.done("pause-pipeline", name="revenue")
    assert operator.value("select bool_or(is_paused) from milepost.pipelines") is True
    operator.done("resume-pipeline", name="revenue")
    assert operator.value("select bool_or(is_paused) from milepost.pipelines") is False


def test_a_pipeline_is_rolled_back_to_its_previous_version(operator: Operator) -> None:
    said = operator.done("roll-back-pipeline", name="revenue")
    assert said == "revenue shows version 1 again. Version 2 is kept."
    assert (operator.value(SHOWN), operator.value(VIEW)) == (1, True)


def test_a_pipeline_shows_any_version_that_was_kept(operator: Operator) -> None:
    operator.done("swap-pipeline", name="revenue", version=1)
    operator.done("swap-pipeline", name="revenue", version=2)
    assert (operator.value(SHOWN), operator.value(VIEW)) == (2, False)


def test_a_version_that_is_not_built_is_not_shown(operator: Operator) -> None:
    operator.refused("swap-pipeline", name="revenue", version=3)
    assert operator.value(SHOWN) == 2


def test_a_version_is_dropped_with_its_table(operator: Operator) -> None:
    operator.done("drop-pipeline-version", name="revenue", version=1)
    assert operator.value("select to_regclass('reports.revenue__v1')") is None
    assert operator.value("select count(*) from milepost.pipelines") == 2


def test_the_active_version_is_not_dropped(operator: Operator) -> None:
    assert "active" in operator.refused("drop-pipeline-version", name="revenue", version=2)
    assert operator.value("select count(*) from milepost.pipelines") == 3
