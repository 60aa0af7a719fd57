"""Nothing lost, nothing doubled, every file as the table was, whatever is killed; and the same
harness finds the loss as soon as what prevents it is taken out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from milepost.db import Connection
from milepost.errors import RangeRemoved
from milepost.sql import LogOrder
from tests.chaos.archive.torture import ArchiveTorture, Result
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.soak import Figures

SABOTAGED_SECONDS = 3.0
pytestmark = [pytest.mark.soak, pytest.mark.timeout(TIMEOUT_SECONDS)]

# As if nobody had to be asked before something is removed.
REMOVE_WITHOUT_THE_ARCHIVES_GATE = """
create or replace function milepost.retention_gates()
returns table (
  consumer text, version integer, segment integer, transaction_id bigint, "position" bigint
)
language sql volatile as $$
  select c.processor, c.version, c.segment, c.transaction_id, c."position"
  from milepost.checkpoints as c where c.processor not like 'milepost.%'
$$
"""
# As if what is in the table were all there is.
READ_THE_TABLE_ALONE = """
create or replace function milepost.refuse_gone(after milepost.position) returns boolean
language sql stable as $$ select true $$
"""


def torture(url: str, directory: Path, seconds: float) -> Result:
    result = ArchiveTorture(url, directory, seconds, new_seed()).run()
    sys.stdout.write(f"{result}\n")
    return result


def test_nothing_is_lost_doubled_or_altered(
    url: str, order: LogOrder, tmp_path: Path, figures: Figures
) -> None:
    result = torture(url, tmp_path, SECONDS)
    figures(messages=result.messages, kills=result.kills, lost=result.lost, doubled=result.doubled)
    assert result.is_clean, result
    assert result.kills > 0, result
    assert result.archived > 0, result
    assert result.removed > 0, result
    assert all(account.expected for account in result.accounts), result


@pytest.mark.parametrize("order", ["append"])
def test_reading_the_table_alone_loses_messages(url: str, conn: Connection, tmp_path: Path) -> None:
    conn.execute(READ_THE_TABLE_ALONE)
    assert torture(url, tmp_path, SABOTAGED_SECONDS).lost > 0


@pytest.mark.parametrize("order", ["append"])
def test_removing_what_is_not_archived_is_noticed_by_its_readers(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    conn.execute(REMOVE_WITHOUT_THE_ARCHIVES_GATE)
    with pytest.raises(RangeRemoved):
        torture(url, tmp_path, SECONDS)
