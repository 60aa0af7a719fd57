"""Nothing lost, nothing doubled, nothing out of order, whatever happens to writers and readers;
and the same harness finds the loss as soon as what prevents it is taken out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from milepost.db import Connection
from milepost.sql import LogOrder
from tests.chaos.log.report import Report
from tests.chaos.log.sabotage import APPEND_WITHOUT_A_FLOOR, READ_TO_THE_NEWEST_ROW
from tests.chaos.log.torture import WRITERS, Torture
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.soak import Figures

SABOTAGED_SECONDS = 3.0
pytestmark = pytest.mark.soak


def torture(url: str, directory: Path, seconds: float) -> Report:
    report = Torture(url, directory, seconds, new_seed()).run()
    sys.stdout.write(f"{report}\n")
    return report


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_nothing_is_lost_doubled_or_out_of_order(
    url: str, order: LogOrder, tmp_path: Path, figures: Figures
) -> None:
    report = torture(url, tmp_path, SECONDS)
    doubled = sum(account.doubled for account in report.accounts)
    figures(messages=report.messages, kills=report.kills, lost=report.lost, doubled=doubled)
    assert report.is_clean, report
    assert report.kills > 0, report
    assert report.transactions >= WRITERS, report
    assert all(account.expected and account.sessions > 1 for account in report.accounts), report


def test_reading_to_the_newest_row_loses_messages(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    conn.execute(READ_TO_THE_NEWEST_ROW)
    report = torture(url, tmp_path, SABOTAGED_SECONDS)
    assert report.lost > 0, report
    assert report.promises.are_kept, report


@pytest.mark.parametrize("order", ["append"])
def test_appending_without_a_floor_loses_messages(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    conn.execute(APPEND_WITHOUT_A_FLOOR)
    report = torture(url, tmp_path, SABOTAGED_SECONDS)
    assert report.lost > 0, report
    assert report.promises.are_kept, report
