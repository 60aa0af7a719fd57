"""The driver of a pipeline: its sessions, supervised."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from milepost.owner import owner_name
from milepost.pipeline.run.range_session import RangeSession
from milepost.pipeline.run.report import PipelineStatus
from milepost.pipeline.run.streams.session import StreamSession
from milepost.pipeline.spark.connect import page_of
from milepost.runtime import Supervisor

if TYPE_CHECKING:
    from threading import Event

    from milepost.pipeline.run.setup import Setup

# The supervisor raises what a batch raises. py4j would also print it, with its stack, and would log
# every call.
logging.getLogger("py4j").setLevel(logging.WARNING)
logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)


def supervised(setup: Setup, stop: Event) -> Supervisor:
    """Its `run` raises what ends the pipeline for good."""
    status = PipelineStatus(
        owner=owner_name(),
        schema=setup.schema,
        options=setup.options,
        spark_page=page_of(setup.spark),
    )

    kind = StreamSession if setup.options.keeps_state else RangeSession
    return Supervisor(lambda: kind(setup, status, stop), status, setup.url, "pipeline", stop=stop)
