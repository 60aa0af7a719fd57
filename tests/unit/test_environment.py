from __future__ import annotations

import pytest

from milepost.environment import is_embedded_wanted, refuse_embedded, unread_names
from milepost.errors import InvalidSetting, NoDatabaseNamed


@pytest.mark.parametrize(
    "name",
    [
        "MILEPOST_URI",
        "MILEPOST_ULR",
        "milepost_url",
        "MILEPSOT_URL",
        "MILEPOST_DSN",
        "DATABASE_URL",
    ],
)
def test_a_variable_that_was_meant_to_name_the_database_is_noticed(name: str) -> None:
    assert unread_names({name: "postgresql://x", "HOME": "/"}) == [name]


@pytest.mark.parametrize(
    "name",
    ["MILEPOST_URL", "MILEPOST_SCHEMA", "MILEPOST_DEBUG", "MILEPOST_EMBEDDED", "MILEPOST_TEST_URL"],
)
def test_a_variable_that_means_something_else_is_not(name: str) -> None:
    assert unread_names({name: "x"}) == []


def test_an_empty_variable_says_nothing() -> None:
    assert unread_names({"DATABASE_URL": ""}) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", None), ("off", False), ("OFF ", False), ("0", False), ("on", True), ("true", True)],
)
def test_the_embedded_server_is_asked_for_or_forbidden(value: str, expected: bool | None) -> None:
    assert is_embedded_wanted({"MILEPOST_EMBEDDED": value}) is expected


def test_a_value_that_means_nothing_does_not_mean_on() -> None:
    with pytest.raises(InvalidSetting, match="'offf': expected on or off"):
        refuse_embedded({"MILEPOST_EMBEDDED": "offf"})


def test_the_refusal_names_variables_but_never_values() -> None:
    environ = {"MILEPOST_EMBEDDED": "off", "DATABASE_URL": "postgresql://me:s3cr3t@host/shop"}
    with pytest.raises(NoDatabaseNamed, match="not read: DATABASE_URL") as refusal:
        refuse_embedded(environ)
    assert "s3cr3t" not in str(refusal.value)
