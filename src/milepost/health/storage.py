"""What can run out: the values of sequences, transaction ids, and the disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from milepost.health.check import Check, Limits, listed
from milepost.log.diagnosis import Problem
from milepost.words import count, size

GB = 1 << 30


@dataclass(frozen=True, slots=True)
class SequenceStatus:
    """`used` is None if it is hidden from this role. `is_cluster`: not a sequence, but the
    transaction ids that are not frozen."""

    name: str
    used: float | None  # as a fraction of 1
    is_cluster: bool


@dataclass(frozen=True, slots=True)
class TableStatus:
    name: str
    bytes: int
    dead_rows: int


def sequences_check(found: Sequence[SequenceStatus], username: str, limits: Limits) -> Check:
    seen = [(sequence, sequence.used) for sequence in found if sequence.used is not None]
    hidden = [sequence.name for sequence in found if sequence.used is None]
    most, used = max(seen, key=lambda pair: pair[1], default=(None, 0.0))
    detail = "none seen" if most is None else f"{most.name} used most, {used:.0%}"
    return Check("sequences", detail, tuple(_exhaustion(seen, hidden, username, limits)))


def _exhaustion(
    seen: Sequence[tuple[SequenceStatus, float]], hidden: list[str], username: str, limits: Limits
) -> Iterator[Problem]:
    for sequence, used in seen:
        if used * 100 < limits.sequence_percent:
            continue
        remedy = (
            "vacuum (freeze) the tables with the highest age(relfrozenxid), in every database"
            if sequence.is_cluster
            else "see last_value in pg_sequences: a restore or setval() may have set it too high"
        )
        yield Problem("sequences", f"{used:.0%} of {sequence.name} are used", remedy)
    if hidden:
        yield Problem(
            "sequences",
            f"The role {username} may not see {count(len(hidden), 'sequence')}: {listed(hidden)}",
            f"milepost grant {quote(username)} --to metrics",
            is_unknown=True,
        )


def disk_check(found: Sequence[TableStatus], schema: str, limits: Limits) -> Check:
    total = sum(table.bytes for table in found)
    dead = sum(table.dead_rows for table in found)
    detail = f"{size(total)}, {count(dead, 'dead row')}"
    return Check("disk", detail, tuple(_growth(found, total, schema, limits)))


def _growth(
    found: Sequence[TableStatus], total: int, schema: str, limits: Limits
) -> Iterator[Problem]:
    if total > limits.disk_gb * GB:
        largest = sorted(found, key=lambda table: -table.bytes)[:3]
        names = ", ".join(f"{table.name} {size(table.bytes)}" for table in largest)
        yield Problem(
            "disk",
            f"The schema {schema} uses {size(total)}, more than {limits.disk_gb:g} GB ({names})",
            "remove what is not needed, or raise --max-disk-gb",
        )
    for table in found:
        if table.dead_rows > limits.dead_rows:
            yield Problem(
                "disk",
                f"The table {table.name} has {table.dead_rows:,} dead rows: vacuum does not keep "
                "up, or an old snapshot prevents their removal",
                f"vacuum (verbose) {schema}.{table.name}, which reports what prevents it",
            )
