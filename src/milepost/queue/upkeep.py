"""How channels are kept up: how long dead jobs stay, and how priorities age.

Both are off by default. They are not part of a channel's limits: one setting is usually for many
channels, by a prefix and a star.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from milepost import db, sql
from milepost.queue.definition import check_pattern

if TYPE_CHECKING:
    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class Upkeep:
    """`keep_dead_for`: dead jobs are deleted after that time. `ageing`: a ready job moves one
    priority up each time it has waited so long. None: never."""

    keep_dead_for: timedelta | None = None
    ageing: timedelta | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and (not isinstance(value, timedelta) or value <= timedelta(0)):
                raise ValueError(
                    f"{name} is {value!r}: expected None, or a timedelta of more than nothing."
                )


def set_upkeep(
    conn: Connection, name: str, upkeep: Upkeep, schema: str = sql.DEFAULT_SCHEMA
) -> None:
    """For a channel, or for all channels of a prefix (`tenant.*`, `*`) that have none of their own;
    the longest prefix wins. The limits stay as they are."""
    check_pattern(name)
    db.run(conn, schema, "queue_set_upkeep", name=name, **asdict(upkeep))
