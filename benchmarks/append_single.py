"""What the log costs where it costs most: transactions that append one message and do nothing
else, from eight clients at once."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import pgbench, sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.follower import following
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.workbench import Workbench

# The statement of `append(conn, message)`; the bare table answers with its columns. The id is
# random here: pgbench has no UUIDv7.
_INSERT = """
\\set number random(1, 1000)
insert into {table} (id, topic, key, type, data, metadata)
values (gen_random_uuid(), 'orders', 'order-' || :number, 'OrderPlaced', '{data}', '{metadata}')
returning {returning};
"""
_COLUMNS = 'transaction_id, "position"'
FUNCTIONS = "milepost.transaction_id(), milepost.last_position()"
_SILENT = "-c milepost.notify=off"
_NAMES = {
    "notify": "append order, with NOTIFY",
    "silent": "append order, milepost.notify=off",
    "followed": "append order, with NOTIFY and a reader following",
    "transaction": "transaction order, with NOTIFY",
    "transaction silent": "transaction order, milepost.notify=off",
}
_TARGETS = {"notify": AtLeast(0.85), "silent": AtLeast(0.85)}


def measure(bench: Workbench) -> list[Comparison]:
    bare_script = script(bench, "bare.messages", _COLUMNS)
    log = script(bench, "milepost.messages", FUNCTIONS)
    tps = partial(pgbench.transactions_per_second, seconds=bench.choose(2, 1))
    with bench.database("append") as url, bench.database("transaction") as other_url:

        def followed() -> float:
            with following(url):
                return tps(url, log)

        def bare() -> float:
            return tps(url, bare_script)

        # The sides with a target take turns by themselves, in many short rounds: the closer two
        # of them are in time, the more alike are their conditions.
        measured = alternate(
            {
                "bare": bare,
                "notify": lambda: tps(url, log),
                "silent": lambda: tps(url, log, settings=_SILENT),
            },
            rounds=bench.choose(21, 1),
        )
        known = alternate(
            {
                "bare": bare,
                "followed": followed,
                "transaction": lambda: tps(other_url, log),
                "transaction silent": lambda: tps(other_url, log, settings=_SILENT),
            },
            rounds=bench.choose(7, 1),
        )
    return [
        *(_comparison(side, measured) for side in ("notify", "silent")),
        *(_comparison(side, known) for side in ("followed", "transaction", "transaction silent")),
    ]


def script(bench: Workbench, table: str, returning: str) -> Path:
    (message,) = sample.orders(1)
    path = bench.directory / f"insert-{table}.sql"
    # json leaves a space after each colon, orjson none: pgbench would see variables.
    data, metadata = json.dumps(message.data), json.dumps(dict(message.metadata))
    path.write_text(_INSERT.format(table=table, data=data, metadata=metadata, returning=returning))
    return path


def _comparison(side: str, measured: dict[str, list[float]]) -> Comparison:
    return Comparison(
        _NAMES[side],
        "a bare table",
        "transactions/s",
        measured[side],
        measured["bare"],
        _TARGETS.get(side),
    )


FIGURE = Figure(
    "append_single",
    f"Transactions of one message, {pgbench.CLIENTS} clients, against the same INSERT into a "
    "table without trigger",
    measure,
)
