from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from milepost.processors.admin import is_recovered

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
BEFORE, AFTER = NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)


def test_without_an_error_there_is_nothing_to_recover_from() -> None:
    assert is_recovered("running", 5, failed_at=None, moved_at=AFTER) is None


@pytest.mark.parametrize("state", ["failed", "reconnecting", "retrying", "silent", "starting"])
def test_what_is_in_error_has_not_recovered(state: str) -> None:
    assert is_recovered(state, 0, failed_at=NOW, moved_at=AFTER) is False


@pytest.mark.parametrize(
    ("lag", "moved_at", "expected"),
    [(5, AFTER, True), (5, BEFORE, False), (5, None, False), (0, BEFORE, True)],
)
def test_a_restart_is_not_a_recovery_until_something_is_done(
    lag: int, moved_at: datetime | None, expected: bool
) -> None:
    assert is_recovered("running", lag, failed_at=NOW, moved_at=moved_at) is expected
