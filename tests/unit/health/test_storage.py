from __future__ import annotations

from milepost.health.check import Limits
from milepost.health.storage import (
    GB,
    SequenceStatus,
    TableStatus,
    disk_check,
    sequences_check,
)

POSITIONS = SequenceStatus("messages_position_seq", 0.5, is_cluster=False)
CLUSTER = SequenceStatus("the transaction ids of the cluster", 0.74, is_cluster=True)


def test_what_is_used_most_is_named() -> None:
    check = sequences_check([POSITIONS, CLUSTER], "me", Limits())
    assert check.state == "ok"
    assert check.detail == "the transaction ids of the cluster used most, 74%"


def test_a_sequence_and_the_cluster_have_remedies_of_their_own() -> None:
    first, second = sequences_check(
        [POSITIONS, CLUSTER], "me", Limits(sequence_percent=50)
    ).problems
    assert "messages_position_seq" in first.what
    assert "freeze" in second.remedy


def test_a_sequence_that_may_not_be_seen_is_unknown() -> None:
    hidden = SequenceStatus("jobs_id_seq", None, is_cluster=False)
    check = sequences_check([hidden, POSITIONS], "me", Limits())
    assert (check.state, check.hint) == ("unknown", "milepost grant me --to metrics")


def test_the_disk_and_dead_rows_have_limits() -> None:
    tables = [TableStatus("messages", 3 * GB, 0), TableStatus("jobs", GB, 100)]
    assert disk_check(tables, "milepost", Limits()).detail == "4.0 GB, 100 dead rows"
    assert disk_check(tables, "milepost", Limits(disk_gb=4, dead_rows=100)).state == "ok"
    full = disk_check(tables, "milepost", Limits(disk_gb=3.9)).problems
    assert "uses 4.0 GB, more than 3.9 GB (messages 3.0 GB, jobs 1.0 GB)" in full[0].what
    bloated = disk_check(tables, "milepost", Limits(dead_rows=99)).problems
    assert bloated[0].remedy.startswith("vacuum (verbose) milepost.jobs")
