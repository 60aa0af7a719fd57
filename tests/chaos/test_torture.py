"""Nothing lost, nothing doubled, nothing out of order, whatever happens to writers and readers;
and the same harness finds the loss as soon as what prevents it is taken out.

MILEPOST_TORTURE_SECONDS asks for more than the 20 s of the suite, MILEPOST_TORTURE_SEED for the
random choices of an earlier run (not for its timing).
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from milepost.db import Connection
from milepost.sql import LogOrder
from tests.chaos.report import Report
from tests.chaos.sabotage import APPEND_WITHOUT_A_FLOOR, READ_TO_THE_NEWEST_ROW
from tests.chaos.torture import WRITERS, Torture

SECONDS = float(os.environ.get("MILEPOST_TORTURE_SECONDS", "20"))
SABOTAGED_SECONDS = 3.0


def torture(url: str, directory: Path, seconds: float) -> Report:
    seed = int(os.environ.get("MILEPOST_TORTURE_SEED", random.SystemRandom().getrandbits(32)))
    sys.stdout.write(f"MILEPOST_TORTURE_SEED={seed}\n")  # before it can fail
    report = Torture(url, directory, seconds, seed).run()
    sys.stdout.write(f"{report}\n")
    return report


@pytest.mark.timeout(SECONDS * 2 + 240)
def test_nothing_is_lost_doubled_or_out_of_order(url: str, order: LogOrder, tmp_path: Path) -> None:
    report = torture(url, tmp_path, SECONDS)
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
