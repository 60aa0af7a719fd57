from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from milepost import sql
from milepost.drivers.driver import Copy
from milepost.drivers.parameters import interpolated, numbered

QUERY = b"select %(a)s::uuid, %(b)b::json[], %(a)s::uuid, 5 %% 2, %(c)s::integer"
ID = UUID(int=1)
# What `append` and `put` send.
SENT = [
    "append", "append_one", "queue_put", "queue_put_many", "queue_put_many_plain",
    "queue_put_many_traced", "queue_put_plain", "queue_put_traced", "queue_time",
]  # fmt: skip


def test_numbered_parameters_are_sent_as_text_where_codecs_may_differ() -> None:
    text, values = numbered((QUERY, {"a": ID, "b": ["{}", None], "c": 3}))
    assert text == ("select $1::text::uuid, $2::text[]::json[], $1::text::uuid, 5 % 2, $3::integer")
    assert values == (str(ID), ["{}", None], 3)


def test_interpolated_parameters_keep_their_names() -> None:
    text, values = interpolated((QUERY, {"a": None, "b": None, "c": 3}))
    assert text == "select %(a)s::uuid, %(b)s::json[], %(a)s::uuid, 5 %% 2, %(c)s::integer"
    assert values == {"a": None, "b": None, "c": 3}


def test_times_and_durations_are_what_the_server_reads() -> None:
    query = b"select %(at)s::timestamptz, %(times)s::timestamptz[], %(ago)s::interval"
    at = datetime(1, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    _, values = numbered((query, {"at": at, "times": [at, None], "ago": timedelta(seconds=-1)}))
    assert values == (
        "0001-01-02T03:04:05.000006+00:00",
        ["0001-01-02T03:04:05.000006+00:00", None],
        "-1 days 86399 seconds 0 microseconds",
    )


@pytest.mark.parametrize("name", SENT)
def test_every_parameter_has_a_cast(name: str) -> None:
    """Else its type would depend on the driver."""

    class Anything(dict[str, None]):
        def __missing__(self, name: str) -> None:
            return None

    text, _ = numbered((sql.query(name), Anything()))
    assert "%(" not in text


def test_a_parameter_without_a_cast_and_a_copy_are_refused() -> None:
    with pytest.raises(ValueError, match="'a' has no cast"):
        numbered((b"select %(a)s", {"a": 1}))
    with pytest.raises(TypeError, match="psycopg 3"):
        interpolated(Copy(b"copy t from stdin", (), ()))
