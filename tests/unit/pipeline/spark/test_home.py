"""Spark's home without the archive of PySpark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from milepost.pipeline.spark.home import VARIABLE, home_of, without_archive

PROGRAM = sys.executable


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    place = tmp_path / "site" / "pyspark"
    for name in ("bin", "jars", "python/lib"):
        (place / name).mkdir(parents=True)
    (place / "version.py").write_text("__version__ = '4.3.0'")
    (place / "python" / "lib" / "pyspark.zip").touch()
    return place


def test_it_has_everything_but_the_archive(installed: Path, tmp_path: Path) -> None:
    home = home_of(installed, tmp_path / "cache")
    assert {part.name for part in home.iterdir()} == {"bin", "jars", "version.py"}
    assert (home / "bin").resolve() == installed / "bin"


def test_it_is_made_once_for_each_version(installed: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = home_of(installed, cache)
    assert home_of(installed, cache) == first
    (installed / "version.py").write_text("__version__ = '4.4.0'")
    assert home_of(installed, cache) != first
    assert len(list(cache.iterdir())) == 2


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path), "PYSPARK_PYTHON": PROGRAM, **more}


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_spark_is_started_with_it(tmp_path: Path, master: str) -> None:
    environ = environment(tmp_path)
    with without_archive(master, environ, PROGRAM):
        assert not Path(environ[VARIABLE], "python").exists()
        assert Path(environ[VARIABLE], "bin", "spark-submit").is_file()
    assert VARIABLE not in environ


@pytest.mark.parametrize("master", ["spark://there:7077", "yarn", "k8s://there", ""])
def test_a_cluster_may_be_sent_the_archive(tmp_path: Path, master: str) -> None:
    environ = environment(tmp_path)
    with without_archive(master, environ, PROGRAM):
        assert VARIABLE not in environ


def test_a_home_that_was_chosen_stays(tmp_path: Path) -> None:
    environ = environment(tmp_path, SPARK_HOME="/opt/spark")
    with without_archive("local[2]", environ, PROGRAM):
        assert environ[VARIABLE] == "/opt/spark"
    assert environ[VARIABLE] == "/opt/spark"


def test_another_python_may_need_the_archive(tmp_path: Path) -> None:
    environ = environment(tmp_path, PYSPARK_PYTHON="/usr/bin/python3")
    with without_archive("local[2]", environ, PROGRAM):
        assert VARIABLE not in environ
