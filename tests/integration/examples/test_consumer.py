"""What fails holds the checkpoint back, and the next run goes on from there."""

from __future__ import annotations

from tests.integration.examples.running import Place


def test_the_checkpoint_stays_before_what_failed_and_the_next_run_goes_on_there(
    place: Place,
) -> None:
    place.said("milepost migrate")
    assert place.said("python examples/consumer.py append 20") == "appended 20 orders\n"
    assert place.said("python examples/consumer.py fail 3").splitlines() == [
        "begin after 0:0",
        "message 3 of this run is not complete",
        "handled 19 of 20, the checkpoint is 0:2",
    ]
    assert place.said("python examples/consumer.py").splitlines() == [
        "begin after 0:2",
        "handled 18 of 18, the checkpoint is 0:20",
    ]
    assert place.said("python examples/consumer.py").splitlines() == [
        "begin after 0:20",
        "handled 0 of 0, the checkpoint is 0:20",
    ]
