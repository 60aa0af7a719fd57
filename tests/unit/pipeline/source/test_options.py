from __future__ import annotations

from datetime import UTC, datetime

import pytest
from psycopg.conninfo import conninfo_to_dict

from milepost.checkpoints import CheckpointKey
from milepost.errors import (
    InvalidOption,
    InvalidSchemaName,
    InvalidUrl,
    MilepostError,
    StartAfterEnd,
)
from milepost.pipeline.source.options import SourceOptions, complete_conninfo, parse
from milepost.records import Position

URL = "postgresql://ada:s3cret@db.example:6432/shop"


def options(**given: str) -> SourceOptions:
    return parse({"url": URL, **given}, {})


def test_without_options_everything_is_read() -> None:
    parsed = options()
    assert (parsed.start, parsed.end, parsed.schema) == ("earliest", "latest", "milepost")
    assert parsed.conditions.topics is None
    assert parsed.max_messages is None


def test_names_are_matched_whatever_their_case() -> None:
    assert options(MAXMESSAGESPERTRIGGER="5").max_messages == 5


@pytest.mark.parametrize("text", ["a,b", " a , b ", '["a", "b"]'])
def test_lists_are_written_with_commas_or_as_json(text: str) -> None:
    assert options(topics=text).conditions.topics == frozenset({"a", "b"})


def test_a_name_with_a_comma_needs_json() -> None:
    assert options(types='["a,b"]').conditions.types == frozenset({"a,b"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("17:42", Position(17, 42)),
        ("42", Position(0, 42)),
        ("2026-01-31T12:00:00+00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_where_to_start(text: str, expected: object) -> None:
    assert options(startingPosition=text).start == expected


@pytest.mark.parametrize(("text", "version"), [("billing", 1), ("billing@3", 3)])
def test_a_checkpoint_to_start_from(text: str, version: int) -> None:
    parsed = options(startingPosition="checkpoint", processor=text)
    assert parsed.start == CheckpointKey("billing", version)


def test_a_version_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidOption) as caught:
        options(startingPosition="checkpoint", processor="billing@two")
    assert caught.value.option == "processor"


@pytest.mark.parametrize("start", [{}, {"startingPosition": "earliest"}])
def test_a_processor_whose_checkpoint_is_not_asked_for_is_refused(start: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="startingPosition=checkpoint") as caught:
        options(**start, processor="billing")
    assert caught.value.option == "processor"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", "latest"),
        ("17:42", Position(17, 42)),
        ("2026-01-31T12:00:00+00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_where_to_end(text: str, expected: object) -> None:
    assert options(endingPosition=text).end == expected


def test_counts_are_read() -> None:
    parsed = options(partitions="4", messagesPerPartition="1000", retrySeconds="0")
    assert (parsed.partitions, parsed.messages_per_partition, parsed.retry_seconds) == (4, 1000, 0)


def test_columns_keep_their_order() -> None:
    assert options(columns="data,position").columns == ("position", "data")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", "a"),
        ("topics", ""),
        ("topics", "a,,b"),
        ("topics", "[1]"),
        ("topics", "[oops"),
        ("types", ""),
        ("types", '["a", ""]'),
        ("maxMessagesPerTrigger", "0"),
        ("maxMessagesPerTrigger", "many"),
        ("partitions", "-1"),
        ("messagesPerPartition", "0"),
        ("messagesPerPartition", "1.5"),
        ("columns", "position,colour"),
        ("startingPosition", "checkpoint"),
        ("startingPosition", "2026-01-31T12:00:00"),
        ("startingPosition", "noon"),
        ("endingPosition", "earliest"),
        ("endingPosition", "checkpoint"),
        ("retrySeconds", "soon"),
        ("dataAs", "variant"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        options(**{name: value})
    assert caught.value.option == name


def test_a_schema_name_is_checked() -> None:
    with pytest.raises(InvalidSchemaName):
        options(schema="No Such")


def test_the_url_comes_from_the_environment_of_the_driver() -> None:
    parts = conninfo_to_dict(complete_conninfo(None, {"MILEPOST_URL": URL}))
    assert (parts["host"], parts["password"]) == ("db.example", "s3cret")


def test_what_libpq_would_read_from_the_environment_travels_along() -> None:
    environ = {"PGHOST": "elsewhere", "PGPASSWORD": "s3cret", "PGUSER": "eve"}
    parts = conninfo_to_dict(complete_conninfo("host=here user=ada", environ))
    assert (parts["host"], parts["user"], parts["password"]) == ("here", "ada", "s3cret")


def test_no_url_at_all_is_an_error_that_says_what_to_set() -> None:
    with pytest.raises(InvalidOption, match="MILEPOST_URL"):
        parse({}, {})


@pytest.mark.parametrize("url", ["postgresql://ada:s3cret/@db/shop", "s3cret"])
def test_a_bad_url_is_not_shown(url: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        parse({"url": url}, {})
    assert "s3cret" not in str(caught.value)


def test_options_do_not_show_the_password() -> None:
    assert "s3cret" not in repr(options())
    with pytest.raises(MilepostError) as caught:
        options(topics="")
    assert "s3cret" not in str(caught.value)


def test_a_time_to_start_that_is_after_the_time_to_end_is_refused() -> None:
    earlier, later = "2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00+01:00"
    with pytest.raises(StartAfterEnd, match="Exchange them"):
        options(startingPosition=earlier, endingPosition=later)
    options(startingPosition=later, endingPosition=earlier)
