"""The flags of `milepost pipelines rebuild`, in this process: it has a Spark already."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from milepost import Milepost
from tests.pipeline.conftest import APPLICATION
from tests.pipeline.rebuilding import CUSTOMERS, active_version, tables
from tests.pipeline.running import catch_up, expected_per_customer, place, rows

Rebuilds = Callable[..., Result]


@pytest.fixture
def rebuilds(in_process: Callable[..., Result]) -> Rebuilds:
    def run(*flags: str) -> Result:
        return in_process("pipelines", "rebuild", "customers", f"{APPLICATION}:mp", *flags)

    return run


@pytest.mark.parametrize("order", ["append"])
def test_to_a_version_of_ones_choice_the_old_one_kept_or_dropped(
    mp: Milepost, spark: SparkSession, rebuilds: Rebuilds
) -> None:
    place(mp, 0, 60)
    first = rebuilds("--max-messages", "25")
    assert first.stdout.startswith("customers shows version 1: 60 rows up to 0:60 in "), first
    kept = rebuilds("--to-version", "5", "--keep", "--json")
    assert json.loads(kept.stdout) | {"seconds": 0} == {
        "name": "customers", "version": 5, "replaced": 1, "position": "0:60", "rows": 60,
        "seconds": 0, "is_old_dropped": False,
    }  # fmt: skip
    assert tables(mp) == ["customers__v1", "customers__v5"]
    dropped = rebuilds("--to-version", "9", "--drop", "--yes")
    assert "shows version 9 in place of version 5, which is dropped" in dropped.stdout
    assert (active_version(mp), tables(mp)) == (9, ["customers__v1", "customers__v9"])
    refused = rebuilds("--to-version", "9")
    assert (refused.exit_code, "is the active one" in refused.stderr) == (1, True)
    place(mp, 60, 10)
    catch_up(sys.modules[APPLICATION].mp.pipelines["customers"], spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(70)
