from __future__ import annotations

import pytest

from milepost.errors import InvalidOption, InvalidRows
from milepost.pipeline.sink.options import SinkOptions, parse, refuse_overwrite

URL = "postgresql://ada:s3cret@db.example:6432/shop"


def options(**given: str) -> SinkOptions:
    return parse({"url": URL, **given}, {})


def test_the_topic_is_all_that_a_write_needs() -> None:
    parsed = options(TOPIC="orders")
    assert (parsed.topic, parsed.schema, parsed.may_differ) == ("orders", "milepost", False)


def test_what_spark_adds_for_a_stream_is_not_refused() -> None:
    assert options(topic="orders", checkpointlocation="/c", queryname="q").topic == "orders"


def test_a_repeated_batch_may_differ_if_the_caller_says_so() -> None:
    assert options(repeatedBatch="skip").may_differ


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"topics": "orders"}, "'topics' of the Milepost source is not known"),
        ({"path": "orders"}, "the log has no path"),
        ({"topic": ""}, "expected 1 to 255"),
        ({"topic": "t" * 256}, "expected 1 to 255"),
        ({"repeatedBatch": "ignore"}, "expected check or skip"),
        ({"retrySeconds": "soon"}, "expected an integer"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        options(**given)


def test_the_log_is_not_overwritten() -> None:
    with pytest.raises(InvalidRows, match=r'cannot replace.* Use mode\("append"\)'):
        refuse_overwrite(True, 'mode("append")')


def test_no_password_is_shown() -> None:
    assert "s3cret" not in repr(options())
