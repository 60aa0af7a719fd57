from __future__ import annotations

from pathlib import Path

import pytest

from milepost.sql import LogOrder
from tests.integration.examples.running import Place


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture
def place(empty_database: str, tmp_path: Path) -> Place:
    """A newcomer's: nothing is there yet."""
    return Place(empty_database, tmp_path)
