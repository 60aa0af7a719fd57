"""What a condition costs: transactions that append one message unless its key has newer ones, or
unless its id is known, over many keys, from eight clients at once."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import append_single, pgbench, sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate
from milepost import db, indexes

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.workbench import Workbench

KEYS = 100_000
NEEDED = 3_000.0  # a second
# The statement of `append(conn, message, unless=...)` and `append(conn, message, once=True)`. Who
# has read a key to the end passes a position above all of its messages.
_CALL = """
\\set number random(1, {keys})
select transaction_id, "position", is_new
from milepost.append_conditionally(
  array[gen_random_uuid()], array['orders'], array['order-' || :number], array['OrderPlaced'],
  array['{data}'::json], array['{metadata}'::json], {conditions}
);
"""
_UNLESS = "false, 'order-' || :number, row(0, 9223372036854775807)::milepost.position, null"
_ONCE = "true, null, null, null"
_NAMES = {"unless": "unless=Newer(...), 100,000 keys", "once": "once=True"}


def measure(bench: Workbench) -> list[Comparison]:
    tps = partial(pgbench.transactions_per_second, seconds=bench.choose(3, 1))
    plain = append_single.script(bench, "milepost.messages", append_single.FUNCTIONS)
    unless, once = (_script(bench, name) for name in ("unless", "once"))
    with (
        bench.database("append") as url,
        bench.database("append") as once_url,
        bench.database("append") as plain_url,
    ):
        _create(url, indexes.KEY_INDEX)
        _create(once_url, indexes.ID_INDEX)
        measured = alternate(
            {
                "plain": lambda: tps(plain_url, plain),
                "unless": lambda: tps(url, unless),
                "once": lambda: tps(once_url, once),
            },
            rounds=bench.choose(7, 1),
        )
    needed = [NEEDED] * len(measured["unless"])
    return [
        Comparison(
            _NAMES["unless"], "what is needed", "transactions/s", measured["unless"], needed,
            AtLeast(1.0),
        ),
        *(
            Comparison(
                name, "append without a condition", "transactions/s", measured[side],
                measured["plain"],
            )
            for side, name in _NAMES.items()
        ),
    ]  # fmt: skip


def _create(url: str, index: indexes.OptionalIndex) -> None:
    with db.connect(url) as conn:
        indexes.create(conn, "milepost", [index], 60.0, lambda _blockers: None)


def _script(bench: Workbench, name: str) -> Path:
    (message,) = sample.orders(1)
    path = bench.directory / f"append-{name}.sql"
    path.write_text(
        _CALL.format(
            keys=KEYS,
            data=json.dumps(message.data),
            metadata=json.dumps(dict(message.metadata)),
            conditions={"unless": _UNLESS, "once": _ONCE}[name],
        )
    )
    return path


FIGURE = Figure(
    "append_conditional",
    f"Transactions of one message with a condition, {pgbench.CLIENTS} clients, against 3,000 a "
    "second and against append without a condition",
    measure,
)
