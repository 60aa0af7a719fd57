"""What a pipeline tells of itself, without Spark."""

from __future__ import annotations

import pytest
from psycopg import OperationalError

from milepost import Append, Milepost
from milepost.db import Connection
from milepost.pipeline.definition import PipelineOptions
from milepost.pipeline.report import Reporter
from milepost.pipeline.writer import Written
from tests.pipeline.running import rows

COUNTED = "select batches, rows from milepost.pipelines"


@pytest.mark.parametrize("order", ["append"])
def test_what_a_lost_server_has_not_heard_of_is_reported_later(
    mp: Milepost, conn: Connection
) -> None:
    reporter = Reporter(PipelineOptions("seen", Append("seen")), "me", "milepost")
    reporter.register(conn)
    reporter.batch(Written(3))
    with mp.connect() as lost:
        lost.close()
        with pytest.raises(OperationalError):
            reporter.flush(lost)
    reporter.batch(Written(4))
    reporter.flush(conn)
    reporter.flush(conn)
    assert rows(mp, COUNTED) == [(2, 7)]
