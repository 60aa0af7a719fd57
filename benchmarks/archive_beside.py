"""What those who append notice of an archiver that follows them, and of a removal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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
    from pathlib import Path

    from benchmarks.workbench import Workbench

_UNIT = "transactions/s"
_READY = "ready"
_LEAST_MESSAGES = 5_000


def measure(bench: Workbench) -> list[Comparison]:
    insert = script(bench, "milepost.messages", FUNCTIONS)
    tps = partial(pgbench.transactions_per_second, script=insert, seconds=bench.choose(4, 1))
    rounds = bench.choose(7, 1)
    with bench.database() as url:
        archive = str(bench.directory / "beside")

        def archived() -> float:
            with _beside("archive", url, archive):
                return tps(url)

        starting = alternate({"ours": archived, "alone": lambda: tps(url)}, rounds)
    following = _beside_one_that_follows(bench, insert)
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
            "append_single beside an archiver that starts and catches up", "alone", _UNIT,
            starting["ours"], starting["alone"],
        ),
        Comparison(
            "append_single beside the removal of old messages", "alone", _UNIT,
            removing["ours"], removing["alone"], AtLeast(0.9),
        ),
    ]  # fmt: skip


def _beside_one_that_follows(bench: Workbench, insert: Path) -> dict[str, list[float]]:
    """For longer than it rests between two files. While it is not beside, it is frozen; what has
    come meanwhile is archived before the next round."""
    seconds = bench.choose(24, 2)
    tps = partial(pgbench.transactions_per_second, script=insert, seconds=seconds)
    with bench.database() as url, _beside("archive", url, str(bench.directory / "follow")) as one_:

        def beside() -> float:
            one_.send_signal(signal.SIGCONT)
            try:
                _wait_until_archived(url)
                return tps(url)
            finally:
                one_.send_signal(signal.SIGSTOP)

        tps(url)  # nothing is archived without messages
        return alternate({"ours": beside, "alone": lambda: tps(url)}, bench.choose(5, 1))


def _wait_until_archived(url: str) -> None:
    """Up to what was there at the beginning, less the few that wait for the next file."""
    with db.connect(url) as conn:
        newest = one(conn.execute("select max(position) from milepost.messages").fetchone())[0]
        query = "select coalesce(max(last_position), 0) from milepost.archive"
        while one(conn.execute(query).fetchone())[0] < newest - _LEAST_MESSAGES:
            time.sleep(0.1)


@contextmanager
def _beside(what: str, url: str, archive: str) -> Iterator[subprocess.Popen[str]]:
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
            yield process
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
        mp.run_archiver(size=FileSize(least_messages=_LEAST_MESSAGES))


if __name__ == "__main__":
    main(*sys.argv[1:])

FIGURE = Figure("archive_beside", "Appending while old messages are archived and removed", measure)
