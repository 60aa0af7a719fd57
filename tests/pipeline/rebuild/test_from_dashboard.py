"""A rebuild that an operator starts in the browser: a real one, by a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import Result as Invoked

from milepost import Milepost
from milepost.db import Connection
from milepost.pipeline.admin import list_pipelines
from tests.integration.ui.operating import Operator
from tests.pipeline.running import expected_per_customer, place, rows
from tests.waiting import wait_until

APPLICATION = "tests.pipeline.application:mp"
CUSTOMERS = "select customer, total, orders from customers order by customer"
PATIENCE_SECONDS = 240.0  # a driver starts, on a busy machine
pytestmark = pytest.mark.parametrize("order", ["append"])


@pytest.fixture
def operator(
    mp: Milepost, conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Operator]:
    monkeypatch.setenv("MILEPOST_SPARK_MASTER", "local[1]")
    monkeypatch.setenv("MILEPOST_SPARK_DIR", tmp_path.as_uri())
    with closing(mp.dashboard(app=APPLICATION)) as made:
        yield Operator(made, conn)


@pytest.mark.soak  # starts a Spark of its own
def test_a_pipeline_is_rebuilt_from_its_page(
    operator: Operator, mp: Milepost, conn: Connection, in_process: Callable[..., Invoked]
) -> None:
    place(mp, 0, 60)
    ran = in_process("run", APPLICATION, "--only", "customers", "--until", "caught_up")
    assert ran.exit_code == 0, ran.output
    place(mp, 60, 40)
    assert 'action="/actions/rebuild-pipeline"' in operator.get("/pipelines/customers")
    said = operator.done("rebuild-pipeline", name="customers")
    assert said.startswith("The rebuild of customers has begun, in process ")
    wait_until(lambda: active_version(conn) == 2, PATIENCE_SECONDS)
    assert rows(mp, CUSTOMERS) == expected_per_customer(100)


def test_a_pipeline_that_is_not_known_is_not_rebuilt(operator: Operator) -> None:
    assert "nobody" in operator.refused("rebuild-pipeline", name="nobody")


def active_version(conn: Connection) -> int | None:
    found = [each.version for each in list_pipelines(conn, "milepost") if each.is_active]
    return found[0] if found else None
