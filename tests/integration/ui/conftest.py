from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from milepost import Milepost
from milepost.db import Connection
from milepost.log import diagnose
from milepost.sql import LogOrder
from milepost.ui import dashboard
from milepost.ui.actions import processors
from milepost.ui.observed import board, pace
from tests.integration.ui.operating import Operator
from tests.operated import busy_template, busy_url  # noqa: F401 - fixtures

PATIENCE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test opens in a second what an operator opens in a minute; test_load has the real pace."""
    monkeypatch.setattr(pace, "QUERIES_A_SECOND", 1000)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read, a lock and an operation that a busy machine keeps waiting are not given up: the
    answer would be another one."""
    monkeypatch.setattr(board, "LOOK_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(diagnose, "LOCK_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(processors, "TIMEOUT_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def order() -> LogOrder:
    """The dashboard shows both orders alike."""
    return "append"


@pytest.fixture
def operator(mp: Milepost, conn: Connection) -> Iterator[Operator]:
    with closing(dashboard(mp)) as made:
        yield Operator(made, conn)
