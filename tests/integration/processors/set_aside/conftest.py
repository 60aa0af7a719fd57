from __future__ import annotations

import pytest

from milepost import Milepost
from milepost.db import Connection
from tests.integration.processors.set_aside.picky import TABLE, Picky, Table


@pytest.fixture
def picky(url: str) -> Picky:
    return Picky(url)


@pytest.fixture
def table(mp: Milepost, conn: Connection) -> Table:
    conn.execute(TABLE)
    return Table(mp, conn)
