"""The example with real flights, on the first few thousand of them."""

from __future__ import annotations

import pytest

from milepost import Milepost
from tests.integration.examples.running import Place


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_every_number_of_the_pipelines_equals_that_of_pandas(place: Place) -> None:
    output = place.said_by_spark("python -m examples.flights --flights 3000")
    assert "every number equals pandas'" in output
    assert (place.directory / "flights.png").read_bytes().startswith(b"\x89PNG")
    appended = len(list(Milepost(place.url).read(topics=["flights"])))
    assert appended > 3000
    assert f"appended {appended:,} messages" in output
