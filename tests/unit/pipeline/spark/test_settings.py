"""Spark's configuration from a project, the environment and flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import InvalidSparkSetting
from milepost.pipeline.spark.settings import project_table, spark_settings

PROJECT = """
[tool.milepost.spark]
master = "spark://from-project:7077"
executor.memory = "2g"
"spark.sql.shuffle.partitions" = 8
spark.ui.enabled = false
"""


def test_later_places_win(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    table = project_table(tmp_path)
    found = spark_settings(table, {})
    assert found.master == "spark://from-project:7077"
    assert found.config == {
        "spark.executor.memory": "2g",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
    }
    environ = {
        "MILEPOST_SPARK_MASTER": "local[3]",
        "MILEPOST_SPARK_CONF": "executor.memory=3g; spark.a=b=c;",
    }
    found = spark_settings(table, environ, None, ["spark.executor.memory=4g"])
    assert found.master == "local[3]"
    assert found.config["spark.executor.memory"] == "4g"
    assert found.config["spark.a"] == "b=c"
    assert spark_settings(table, environ, "yarn").master == "yarn"


def test_a_project_without_the_table_says_nothing(tmp_path: Path) -> None:
    assert project_table(tmp_path) == {}
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert project_table(tmp_path) == {}


def test_what_is_no_setting_is_refused_without_showing_a_value(tmp_path: Path) -> None:
    with pytest.raises(InvalidSparkSetting, match="'nonsense': expected key=value"):
        spark_settings({}, {}, None, ["nonsense"])
    with pytest.raises(InvalidSparkSetting) as caught:
        spark_settings({}, {"MILEPOST_SPARK_CONF": "=secret"})
    assert "secret" not in str(caught.value)
    (tmp_path / "pyproject.toml").write_text("[tool.milepost]\nspark = 'x'\n")
    with pytest.raises(InvalidSparkSetting, match="not a table"):
        project_table(tmp_path)
