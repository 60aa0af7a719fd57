"""The dashboard of a large log: how soon its first page is there, how soon a change is on it, and
what those who append and work notice of it while it is open."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING
from urllib.parse import quote
from urllib.request import urlopen

from benchmarks import pgbench, queue_worker
from benchmarks.append_single import FUNCTIONS, script
from benchmarks.draining import UNIT, settle
from benchmarks.figure import AtLeast, AtMost, Comparison, Figure
from benchmarks.metrics import fill
from benchmarks.rounds import alternate
from milepost import Job, Message, Milepost, db
from milepost.queue import put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench

_FIRST_PAGE_MS = 150.0
_CHANGE_MS = 1000.0
_CHANGES = 10


def measure(bench: Workbench) -> list[Comparison]:
    return [*_large(bench), *_beside_appends(bench), *_beside_a_drain(bench)]


def _large(bench: Workbench) -> list[Comparison]:
    with bench.database() as url:
        sizes = fill(url, bench)
        rounds = range(bench.choose(5, 1))
        first = [_first_page_ms(url) for _ in rounds]
        with _opened(url) as root:
            changes = [_change_ms(url, root, number) for number in range(bench.choose(_CHANGES, 1))]
    where = f"{sizes['messages']:,} messages, {sizes['jobs']:,} jobs"
    return [
        Comparison(
            f"the first page after the start, {where}", "150 ms", "ms",
            first, [_FIRST_PAGE_MS] * len(first), AtMost(1),
        ),
        Comparison(
            f"from the commit of an append to the event with it, {where}", "1 s", "ms",
            changes, [_CHANGE_MS] * len(changes), AtMost(1),
        ),
    ]  # fmt: skip


def _first_page_ms(url: str) -> float:
    """Of a process that has answered nothing yet: with its first connection and its first look."""
    with _served(url) as root:
        began = time.perf_counter()
        with urlopen(root) as answer:  # noqa: S310 - our own address
            answer.read()
        return (time.perf_counter() - began) * 1000


def _change_ms(url: str, root: str, number: int) -> float:
    """At any moment between two looks."""
    key = f"key-of-{number}"
    with urlopen(f"{root}/events?view={quote('/log', safe='')}") as stream:  # noqa: S310 - ours
        _read_until(stream, "event: part")
        time.sleep(0.5 + number * 0.1)
        mp = Milepost(url)
        with mp.connect() as conn:
            mp.append(conn, Message("Changed", {}, key=key))
        began = time.perf_counter()
        _read_until(stream, key)
        return (time.perf_counter() - began) * 1000


def _read_until(stream: object, text: str) -> None:
    while text not in stream.readline().decode():  # type: ignore[attr-defined]  # of urllib
        pass


def _beside_appends(bench: Workbench) -> list[Comparison]:
    insert = script(bench, "milepost.messages", FUNCTIONS)
    tps = partial(pgbench.transactions_per_second, script=insert, seconds=bench.choose(5, 1))
    with bench.database() as url:

        def beside() -> float:
            with _opened(url):
                return tps(url)

        found = alternate({"ours": beside, "alone": lambda: tps(url)}, bench.choose(9, 1))
    name = "append_single beside an open dashboard"
    return [
        Comparison(name, "alone", "transactions/s", found["ours"], found["alone"], AtLeast(0.98))
    ]


def _beside_a_drain(bench: Workbench) -> list[Comparison]:
    count = bench.choose(200_000, 5_000)  # for longer than a look takes turns with the jobs
    sides = {
        "ours": partial(_drain, bench, count, is_open=True),
        "alone": partial(_drain, bench, count, is_open=False),
    }
    found = alternate(sides, bench.choose(7, 1))
    name = "queue_drain beside an open dashboard"
    return [Comparison(name, "alone", UNIT, found["ours"], found["alone"], AtLeast(0.98))]


def _drain(bench: Workbench, count: int, *, is_open: bool) -> float:
    with bench.database() as url:
        with db.connect(url) as conn:
            put(conn, *(Job("channel-0", {"seq": seq}) for seq in range(count)))
        settle(url)
        if not is_open:
            return count / queue_worker.drain(url, "async def")
        with _opened(url):
            return count / queue_worker.drain(url, "async def")


@contextmanager
def _opened(url: str) -> Iterator[str]:
    """With a browser that has shown the overview for a while: the first checks are done."""
    with _served(url) as root:
        is_settled = Event()
        watching = Thread(target=_watch, args=(root, is_settled), daemon=True)
        watching.start()
        if not is_settled.wait(60):
            raise RuntimeError("the dashboard has shown no result of its checks")
        yield root


def _watch(root: str, is_settled: Event) -> None:
    """Until the dashboard ends."""
    with urlopen(f"{root}/events?view=%2F") as stream:  # noqa: S310 - our own address
        while line := stream.readline():
            if b"All checks" in line:
                is_settled.set()


@contextmanager
def _served(url: str) -> Iterator[str]:
    """`milepost ui` in a process of its own."""
    program = Path(sys.executable).with_name("milepost")
    with subprocess.Popen(
        [str(program), "ui", "--listen", "127.0.0.1:0"],
        env=os.environ | {"MILEPOST_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            said = process.stderr.readline() if process.stderr else ""
            found = re.search(r"http://\S+", said)
            if found is None:
                raise RuntimeError(f"the dashboard said {said!r}")
            yield found[0]
        finally:
            process.kill()


FIGURE = Figure("dashboard", "The dashboard of a large log, and what others notice of it", measure)
