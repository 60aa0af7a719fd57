"""Which options go together with segments."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.processors.definition import MAX_SEGMENTS, ProcessorOptions


def options(**given: Any) -> ProcessorOptions:
    return ProcessorOptions("p", **given)


def test_without_segments_everything_is_as_before() -> None:
    assert (options().segments, options().claim_seconds) == (None, 10.0)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("handle", ["batch", "message"])
def test_segments_are_handled_at_once_whatever_the_delivery(delivery: str, handle: str) -> None:
    given = options(segments=8, concurrency=4, delivery=delivery, handle=handle)
    assert (given.segments, given.concurrency) == (8, 4)


@pytest.mark.parametrize("segments", [0, -1, MAX_SEGMENTS + 1])
def test_a_number_of_segments_that_makes_no_sense_is_refused(segments: int) -> None:
    with pytest.raises(ValueError, match="segments"):
        options(segments=segments)


def test_claims_shorter_than_a_beat_is_worth_are_refused() -> None:
    with pytest.raises(ValueError, match="claim_seconds"):
        options(segments=2, claim_seconds=0.1)
