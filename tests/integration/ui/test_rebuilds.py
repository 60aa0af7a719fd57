"""A rebuild that is started from a page and goes wrong; one that succeeds needs a Spark, and is in
tests/pipeline/rebuild."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from milepost import Milepost
from milepost.db import Connection
from tests.integration.ui.operating import Operator
from tests.waiting import wait_until

PAGE = "/pipelines/revenue"
PATIENCE_SECONDS = 60.0


@pytest.fixture
def url(busy_url: str) -> str:
    return busy_url


@pytest.fixture
def operate(mp: Milepost, conn: Connection) -> Iterator[Callable[[str], Operator]]:
    """With an application whose pipelines can be rebuilt."""
    with ExitStack() as stack:

        def make(app: str) -> Operator:
            made = mp.dashboard(app=app)
            stack.callback(made.close)
            return Operator(made, conn)

        yield make


def test_a_rebuild_that_fails_is_said_on_the_page(operate: Callable[[str], Operator]) -> None:
    operator = operate("tests.integration.ui.nowhere:mp")
    assert "exit code" not in operator.get(PAGE)
    operator.done("rebuild-pipeline", name="revenue")
    failed = "The rebuild that was started here has ended with exit code"
    wait_until(lambda: failed in operator.get(PAGE), PATIENCE_SECONDS)


def test_a_second_click_starts_no_second_process(operate: Callable[[str], Operator]) -> None:
    operator = operate("tests.integration.ui.application_that_hangs:mp")
    (pid,) = re.findall(r"\d+", operator.done("rebuild-pipeline", name="revenue"))
    try:
        said = operator.refused("rebuild-pipeline", name="revenue")
        assert f"is running, in process {pid}" in said
        assert f"Process {pid} of this dashboard" in operator.get(PAGE)
    finally:
        os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: "exit code -9" in operator.get(PAGE), PATIENCE_SECONDS)
