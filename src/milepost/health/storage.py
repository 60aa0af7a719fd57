"""What can run out: the values of sequences, transaction ids, and the disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from psycopg import errors as pg

from milepost import db
from milepost.health.check import Check, Limits, listed
from milepost.log.diagnosis import Problem
from milepost.words import count, size

if TYPE_CHECKING:
    from milepost.db import Connection

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


def full_disk(conn: Connection, schema: str) -> Problem | None:
    """Whether the server can write a temporary file. Then it is likely to have room for more."""
    try:
        with conn.transaction():
            db.run(conn, schema, "health_temporary_write")
    except (pg.DiskFull, pg.IoError) as error:
        return Problem(
            "disk",
            f"The server cannot write a temporary file: {error.diag.message_primary}",
            "make room on its disk now: if it cannot write its log of transactions, it stops",
        )
    except pg.ConfigurationLimitExceeded as error:
        return Problem(
            "disk",
            f"Could not check whether the disk is full: {error.diag.message_primary}",
            "let this role write temporary files: alter role ... set temp_file_limit = '8MB'",
            is_unknown=True,
        )
    return None


def disk_check(
    found: Sequence[TableStatus], schema: str, limits: Limits, full: Problem | None = None
) -> Check:
    total = sum(table.bytes for table in found)
    dead = sum(table.dead_rows for table in found)
    detail = f"{size(total)}, {count(dead, 'dead row')}"
    growth = _growth(found, total, schema, limits)
    return Check("disk", detail, (*([full] if full else ()), *growth))


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
