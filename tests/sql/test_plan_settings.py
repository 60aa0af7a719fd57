"""What the functions set for their plans."""

from __future__ import annotations

import pytest

from milepost.db import Connection
from milepost.sql import LogOrder


@pytest.fixture
def order() -> LogOrder:
    return "append"


def test_where_plans_are_restricted_none_is_compiled(conn: Connection) -> None:
    """Up to PostgreSQL 17, a plan with a node that is switched off has a cost of 10 billion. The
    server then compiles it (jit), which takes a quarter of a second for a call of a millisecond."""
    found = conn.execute(
        "select proname, proconfig from pg_proc where pronamespace = 'milepost'::regnamespace "
        "and exists (select from unnest(proconfig) as each where each ~ '^enable_.*=off$')"
    ).fetchall()
    assert len(found) > 50
    assert [name for name, settings in found if "jit=off" not in settings] == []
