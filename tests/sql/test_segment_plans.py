"""What every instance does once a second touches its own processor's rows, not everybody's."""

from __future__ import annotations

import pytest

from milepost.db import Connection, one

PROCESSORS = 500
FILL = """
select milepost.create_segments('processor ' || n, 1, 16, row(0, 0)::milepost.position)
from generate_series(1, %s) as n
"""
STATEMENTS = {
    "tend": "select * from milepost.tend_claims('processor 77', 1, 'me', 10)",
    "claim": "select * from milepost.claim_segments('processor 77', 1, 'me', 4, 10)",
    "release": "select milepost.release_segment('processor 77', 1, 3, 2)",
    "want": "select * from milepost.want_segments('processor 77', 1, 'op', '{3}', 10)",
    "leave": "select milepost.leave_segments('processor 77', 1, 'me')",
}


@pytest.fixture
def crowded(conn: Connection) -> Connection:
    conn.execute(FILL, [PROCESSORS])
    conn.execute("vacuum analyze milepost.segments, milepost.checkpoints, milepost.instances")
    return conn


@pytest.mark.parametrize("order", ["append"])
def test_a_beat_touches_few_pages(crowded: Connection) -> None:
    pages = one(crowded.execute("select pg_relation_size('milepost.segments') / 8192").fetchone())[
        0
    ]
    assert pages > 100
    touched = {name: _pages(crowded, statement) for name, statement in STATEMENTS.items()}
    for _ in range(8):  # past the point at which plans become generic
        touched = {name: _pages(crowded, statement) for name, statement in STATEMENTS.items()}
    assert touched["release"] < 30
    # Sixteen rows, each updated with its index entries looked up; far from 8,000 rows.
    assert max(touched.values()) < 400, touched


def _pages(conn: Connection, statement: str) -> int:
    explain = f"explain (analyze, buffers, format json) {statement}".encode()
    plan = one(conn.execute(explain).fetchone())[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
