"""What a pipeline tells of itself, without Spark."""

from __future__ import annotations

import pytest
from psycopg import OperationalError

from milepost import Append, Milepost
from milepost.db import Connection
from milepost.pipeline.definition import PipelineOptions
from milepost.pipeline.run.report import PipelineStatus
from milepost.pipeline.write.range_writer import Written
from tests.pipeline.running import rows

COUNTED = "select batches, rows from milepost.pipelines"


@pytest.mark.parametrize("order", ["append"])
def test_what_a_lost_server_has_not_heard_of_is_reported_later(
    mp: Milepost, conn: Connection
) -> None:
    options = PipelineOptions("seen", Append("seen"))
    status = PipelineStatus(owner="me", schema="milepost", options=options)
    status.register(conn)
    status.batch(Written(3))
    with mp.connect() as lost:
        lost.close()
        with pytest.raises(OperationalError):
            status.write(lost)
    status.batch(Written(4))
    status.write(conn)
    status.write(conn)
    assert rows(mp, COUNTED) == [(2, 7)]
