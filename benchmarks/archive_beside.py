"""What those who append notice of an archiver that follows them, and of a removal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import pgbench
from benchmarks.append_single import FUNCTIONS, script
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate
from benchmarks.spark_log import fill
from milepost import Milepost, db
from milepost.archive import FileSize, Policy, remove_old, set_policy
from milepost.db import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench

_UNIT = "transactions/s"
_READY = "ready"


def measure(bench: Workbench) -> list[Comparison]:
    insert = script(bench, "milepost.messages", FUNCTIONS)
    tps = partial(pgbench.transactions_per_second, script=insert, seconds=bench.choose(4, 1))
    rounds = bench.choose(7, 1)
    with bench.database() as url:
        archive = str(bench.directory / "beside")

        def archived() -> float:
            with _beside("archive", url, archive):
                return tps(url)

        following = alternate({"ours": archived, "alone": lambda: tps(url)}, rounds)
    with bench.database() as url:
        fill(url, bench.choose(5_000_000, 20_000))

        def removed() -> float:
            with _beside("remove", url, archive):
                rate = tps(url)
            _refuse_idle(url)
            return rate

        removing = alternate({"ours": removed, "alone": lambda: tps(url)}, rounds)
    return [
        Comparison(
            "append_single beside an archiver that follows", "alone", _UNIT,
            following["ours"], following["alone"], AtLeast(0.95),
        ),
        Comparison(
            "append_single beside the removal of old messages", "alone", _UNIT,
            removing["ours"], removing["alone"], AtLeast(0.9),
        ),
    ]  # fmt: skip


@contextmanager
def _beside(what: str, url: str, archive: str) -> Iterator[None]:
    """In a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__, what, archive],
        env=os.environ | {"MILEPOST_URL": url},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            said = process.stdout.readline().strip() if process.stdout else ""
            if said != _READY:
                raise RuntimeError(f"{what} said {said!r}")
            yield
        finally:
            process.send_signal(signal.SIGKILL)


def _refuse_idle(url: str) -> None:
    """What has removed everything costs nothing any more, and would not be measured."""
    with db.connect(url) as conn:
        row = conn.execute("select count(*) from milepost.messages where position <= 5000000")
        if not one(row.fetchone())[0]:
            raise RuntimeError("everything was removed before the end: fill more")


def main(what: str, archive: str) -> None:
    mp = Milepost()
    with mp.connect() as conn:
        if what == "archive":
            set_policy(conn, Policy(archive=archive, archive_after=timedelta(0)))
        else:
            set_policy(conn, Policy(keep=timedelta(0)))
        print(_READY, flush=True)
        if what == "remove":
            remove_old(conn)
    if what == "archive":
        mp.run_archiver(size=FileSize(least_messages=5_000))


if __name__ == "__main__":
    main(*sys.argv[1:])

FIGURE = Figure("archive_beside", "Appending while old messages are archived and removed", measure)
