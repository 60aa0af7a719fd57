"""Whose privilege is missing, as far as it can be told, and what is to be done about it."""

from __future__ import annotations

import pytest

from milepost.db import acting
from milepost.errors import NotPermitted

DENIED = "permission denied for table jobs"


def raised_by(url: str, schema: str = "milepost") -> NotPermitted:
    with pytest.raises(NotPermitted) as refused, acting(url, "work"):
        raise NotPermitted(DENIED, schema)
    return refused.value


def test_the_role_is_the_one_that_the_url_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "grace")
    assert raised_by("postgresql://ada:secret@host/shop").role == "ada"
    assert raised_by("postgresql://host/shop?pgbouncer=true").role == "grace"
    assert raised_by("service=shop").role is None


def test_the_message_is_a_command_to_be_copied() -> None:
    assert str(raised_by("user='ada lovelace'", "other")) == (
        "Permission denied for table jobs, as role 'ada lovelace'. Run as the owner of the schema "
        "'other': milepost grant 'ada lovelace' --to work --apply --schema other"
    )


def test_what_is_unknown_is_left_open() -> None:
    assert str(NotPermitted(DENIED, "milepost")) == (
        "Permission denied for table jobs. Run as the owner of the schema 'milepost': milepost "
        "grant ROLE --to ACTIVITY --apply (docs/security.md lists the activities)"
    )


def test_who_is_nearest_to_the_statement_knows_best() -> None:
    with (
        pytest.raises(NotPermitted) as refused,
        acting("user=outer", "process"),
        acting("user=inner", "append"),
    ):
        raise NotPermitted(DENIED, "milepost")
    assert (refused.value.role, refused.value.activity) == ("inner", "append")
