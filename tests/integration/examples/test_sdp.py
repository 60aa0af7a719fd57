"""The example with Spark Declarative Pipelines."""

from __future__ import annotations

import pytest

from milepost import Milepost
from tests.integration.examples.running import Place


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_large_orders_come_back_to_the_log_once(place: Place) -> None:
    output = place.said_by_spark("python -m examples.sdp")
    large = [
        message.data["number"] for message in Milepost(place.url).read(topics=["large-orders"])
    ]
    assert len(large) == len(set(large)) == 20
    assert "200 orders, 20 large ones in the topic large-orders, each once" in output
