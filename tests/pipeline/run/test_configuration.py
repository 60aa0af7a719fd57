"""Spark as the project, the environment and the flags want it, as far as a running pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from milepost import Milepost
from tests.pipeline.own_spark import BRIEF_VARIABLE
from tests.pipeline.running import place, rows

REPOSITORY = Path(__file__).parents[3]
PROJECT = """
[tool.milepost.spark]
master = "local[3]"
app.name = "from-project"
"sql.shuffle.partitions" = 5
ui.enabled = false
sql.session.timeZone = "Asia/Tokyo"
"""
NAMES = ("master", "app.name", "sql.shuffle.partitions", "sql.session.timeZone")
APPLICATION = f"""
import json
from pathlib import Path
from milepost import Append, Milepost

mp = Milepost()

@mp.pipeline("noting", sink=Append("noted"))
def noting(messages):
    conf = messages.sparkSession.conf
    found = {{name: conf.get("spark." + name) for name in {NAMES!r}}}
    Path("found.json").write_text(json.dumps(found))
    return messages.select("position")
"""


@pytest.mark.timeout(300)
@pytest.mark.soak
@pytest.mark.parametrize("order", ["append"])
def test_later_places_win_in_the_session_that_runs(mp: Milepost, url: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "application.py").write_text(APPLICATION)
    place(mp, 0, 5)
    variables = {
        "MILEPOST_URL": url,
        "MILEPOST_SPARK_CONF": "sql.shuffle.partitions=6;sql.session.timeZone=Africa/Cairo;"
        + BRIEF_VARIABLE,
        "PYTHONPATH": os.pathsep.join(map(str, (REPOSITORY / "src", REPOSITORY))),
    }
    command = "run application:mp --until caught_up --spark-conf spark.sql.shuffle.partitions=7"
    done = subprocess.run(
        [sys.executable, "-m", "milepost.cli", *command.split()],
        cwd=tmp_path, env=os.environ | variables, timeout=250, check=False, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert rows(mp, "select count(*) from noted") == [(5,)]
    assert json.loads((tmp_path / "found.json").read_text()) == {
        "master": "local[3]",  # of the project
        "app.name": "from-project",
        "sql.shuffle.partitions": "7",  # of the flags
        "sql.session.timeZone": "Africa/Cairo",  # of the environment
    }
