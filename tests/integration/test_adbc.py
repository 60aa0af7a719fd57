"""What the driver of Arrow's raises is told in a line."""

from __future__ import annotations

import pytest

from milepost import adbc
from milepost.sql import LogOrder


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.mark.parametrize("query", ["select *\nfrom {}\n", "select 1/0 as {}\n, 2\n, 3"])
def test_an_error_does_not_show_the_query(url: str, query: str) -> None:
    conn = adbc.connect(url)
    try:
        with pytest.raises(adbc.Error) as raised:
            list(conn.stream("-- a part of the query\n" + query.format("nowhere")))
    finally:
        conn.close()
    assert "a part of the query" not in str(raised.value)
    assert str(raised.value).endswith(f". SQLSTATE: {raised.value.sqlstate}")
