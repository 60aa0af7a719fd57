"""What a policy may say, and what it says when it may not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from milepost.errors import InvalidJob, InvalidPolicy
from milepost.queue import Policy, Rate
from milepost.queue.channels import check_name

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("interval", [0.1, timedelta(milliseconds=100)])
def test_an_interval_is_a_timedelta_or_a_number_of_seconds(interval: timedelta | float) -> None:
    assert Policy(release_interval=interval) == Policy(release_interval=0.1 * SECOND)
    assert Rate(5, per=interval).per == 0.1 * SECOND


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_concurrency": 0}, "max_concurrency is 0: expected a whole number from 1 on"),
        ({"max_concurrency": 2.5}, "max_concurrency is 2.5"),
        ({"max_concurrency": True}, "max_concurrency is True"),
        ({"max_concurrency": 2**31}, "max_concurrency is 2147483648"),
        ({"max_concurrency_total": 0}, "max_concurrency_total is 0"),
        ({"max_size": -1}, "max_size is -1"),
        ({"release_interval": 0}, "release_interval is 0:00:00: expected more than nothing"),
        ({"release_interval": -SECOND}, "release_interval is -1 day"),
        ({"release_interval": "1 s"}, "must be a timedelta or a number of seconds, not str"),
        ({"release_interval": float("nan")}, "release_interval is nan: expected a number"),
        ({"release_interval": float("inf")}, "release_interval is inf: expected a number"),
        ({"rate": 10}, "rate must be a Rate, not int"),
    ],
)
def test_a_policy_without_sense_is_refused_with_its_value(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidPolicy, match=said) as refused:
        Policy(**given)
    assert refused.value.field in given
    assert "Nothing was changed" in str(refused.value)


@pytest.mark.parametrize("given", [{"count": 0}, {"count": 1, "burst": 0}, {"count": 1, "per": 0}])
def test_a_rate_without_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy):
        Rate(**given)


def test_a_rate_is_for_a_second_and_without_a_burst_unless_said_otherwise() -> None:
    assert Rate(5) == Rate(5, per=SECOND, burst=1)


def test_a_policy_is_for_a_channel_or_a_family() -> None:
    for name in ("mail", "mail.*", "*"):
        check_name(name)
    with pytest.raises(InvalidPolicy, match="the star is allowed at the end only"):
        check_name("mail.*.x")
    with pytest.raises(InvalidJob):
        check_name("")
