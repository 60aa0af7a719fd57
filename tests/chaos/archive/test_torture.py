"""Nothing lost, nothing doubled, every file as the table was, whatever is killed; and the same
harness finds the loss as soon as what prevents it is taken out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from milepost.db import Connection
from milepost.errors import ArchiveFileMissing, RangeRemoved
from milepost.records import Position
from milepost.sql import LogOrder
from tests.chaos.archive import sabotage
from tests.chaos.archive.instances import InstanceEnded
from tests.chaos.archive.torture import (
    KILLS_PER_MINUTE,
    ArchiveTorture,
    Result,
    checkpoint,
    removed,
)
from tests.chaos.log.torture import START_SECONDS, Torture
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.soak import Figures
from tests.waiting import wait_until

append_order = pytest.mark.parametrize("order", ["append"])
pytestmark = [pytest.mark.soak, pytest.mark.timeout(TIMEOUT_SECONDS)]


def torture(url: str, directory: Path, seconds: float, **options: Any) -> Result:
    result = ArchiveTorture(url, directory, seconds, new_seed(), **options).run()
    sys.stdout.write(f"{result}\n")
    return result


def sabotaged(url: str, directory: Path, **options: Any) -> Result:
    """Nothing need be killed, and few writers will do: what must be noticed happens for sure."""
    return torture(url, directory, 0.0, writers=3, **options)


def test_nothing_is_lost_doubled_or_altered(
    url: str, order: LogOrder, tmp_path: Path, figures: Figures
) -> None:
    result = torture(url, tmp_path, SECONDS, is_whole=True)
    kills = result.counts.kills
    figures(messages=result.messages, kills=kills, lost=result.lost, doubled=result.doubled)
    assert result.is_clean, result
    assert result.archived > 0, result
    assert result.removed > 0, result
    assert all(account.expected for account in result.accounts), result
    assert kills >= SECONDS * KILLS_PER_MINUTE // 60, result
    assert result.counts.rebuild_kills >= SECONDS // 60, result


def refuse_other(noticed: BaseException, *errors: str) -> None:
    """An instance may be the first to notice, or a reader."""
    if isinstance(noticed, InstanceEnded):
        assert noticed.role in ("archiver", "processor", "compactor"), noticed
        assert noticed.error in errors, noticed


@append_order
def test_reading_the_table_alone_loses_messages(url: str, conn: Connection, tmp_path: Path) -> None:
    conn.execute(sabotage.READ_THE_TABLE_ALONE)
    assert sabotaged(url, tmp_path).lost > 0


@append_order
def test_removing_what_is_not_archived_is_noticed(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    """By a reader, by the processor that is reset to the beginning, or by the archiver that finds
    a gap: whoever is first."""
    conn.execute(sabotage.REMOVE_WITHOUT_THE_ARCHIVES_GATE)
    with pytest.raises((RangeRemoved, InstanceEnded)) as noticed:
        sabotaged(url, tmp_path, begin=sabotage.archive_after_removal)
    refuse_other(noticed.value, "RangeRemoved", "ArchiveGap")


@append_order
def test_removing_what_a_processor_has_not_handled_is_noticed(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    """Without an archive, which would have it."""
    conn.execute(sabotage.REMOVE_WITHOUT_THE_PROCESSORS_GATE)
    seed = new_seed()
    torture = ArchiveTorture(url, tmp_path, 0.0, seed)
    torture.prepare(conn, is_archived=False)
    with torture.instances() as instances, Torture(url, tmp_path, 0.0, seed).writers(3):
        instances.start("processor")
        wait_until(lambda: checkpoint(conn) > Position.BEGINNING, START_SECONDS)
        instances.kill("processor")
        instances.start("remover")
        wait_until(lambda: removed(conn) > checkpoint(conn), START_SECONDS)
        instances.start("processor")
        with pytest.raises(InstanceEnded) as noticed:
            wait_until(instances.check, START_SECONDS)
    assert (noticed.value.role, noticed.value.error) == ("processor", "RangeRemoved")


@append_order
def test_a_row_before_its_file_is_noticed(url: str, conn: Connection, tmp_path: Path) -> None:
    with pytest.raises((ArchiveFileMissing, InstanceEnded)) as noticed:
        sabotaged(url, tmp_path, begin=sabotage.commit_a_row_before_its_file)
    refuse_other(noticed.value, "ArchiveFileMissing")


@append_order
def test_asking_the_manifest_before_the_table_is_noticed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has what moves meanwhile, though nothing is lost."""
    with sabotage.manifest_first(monkeypatch) as wrong, pytest.raises(RangeRemoved):
        sabotaged(url, tmp_path, begin=wrong.begin)
