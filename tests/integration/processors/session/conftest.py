"""The tables that Sessions write into."""

from __future__ import annotations

import pytest

from milepost.db import Connection
from tests.orm import make_tables


@pytest.fixture(autouse=True)
def tables(conn: Connection) -> None:
    make_tables(conn)
