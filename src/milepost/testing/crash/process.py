"""One run in a process of its own: forked from the test, it has everything that the test has
prepared, and nothing that another run has left in memory."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from milepost.errors import CrashTestFailed, describe
from milepost.testing.crash.statements import Key, Side, Statement
from milepost.testing.crash.tracing import Tracer

_CHUNK = 65_536
_OUTPUTS = (1, 2)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`has_crashed`: it came to the point at which it was to crash. `error`: what it raised, with
    its traceback; `summary`: the same in a line."""

    statements: list[Statement]
    has_crashed: bool
    error: str | None
    summary: str | None


def run_forked(
    work: Callable[[], None],
    seconds: float,
    crash_at: tuple[Key, Side] | None = None,
    *,
    records: bool = False,
) -> Outcome:
    """Run it until it ends or crashes, at most for so many seconds. `records`: with what is known
    about each statement, which takes time."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Of Python 3.12 and newer: threads of the test, if there are any, are not in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run(work, writing, crash_at, records=records)
    os.close(writing)
    try:
        return _outcome(_read_all(reading, pid, seconds))
    finally:
        os.close(reading)
        os.waitpid(pid, 0)


def _run(
    work: Callable[[], None], out: int, crash_at: tuple[Key, Side] | None, *, records: bool
) -> NoReturn:
    """In the child. It never returns to the test, and nothing of the test ends with it."""
    told = _Lines(out)
    try:
        gc.freeze()  # what the test has made is not looked at, or its memory would be copied
        _be_silent()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        tracer = Tracer(told.statement, told.crash, crash_at, _run.__code__ if records else None)
        tracer.install()
        work()
    except BaseException as error:  # noqa: BLE001 - said to the test, which raises it
        told.line(error=traceback.format_exc(), summary=" ".join(describe(error).split()))
    finally:
        os._exit(0)


def _be_silent() -> None:
    """What a handler prints would be seen once for each crash."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in _OUTPUTS:
        os.dup2(nowhere, output)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - to its end


@dataclass(frozen=True, slots=True)
class _Lines:
    """What the child says, line by line; whatever ends it, what it has said is there."""

    out: int

    def statement(self, statement: Statement) -> None:
        self.line(statement=asdict(statement))

    def crash(self) -> None:
        self.line(crashed=True)

    def line(self, **content: Any) -> None:
        data = json.dumps(content).encode() + b"\n"
        while data:
            data = data[os.write(self.out, data) :]


def _read_all(pipe: int, pid: int, seconds: float) -> bytes:
    said, deadline = bytearray(), time.monotonic() + seconds
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            os.kill(pid, signal.SIGKILL)
            raise CrashTestFailed(_too_slow(bytes(said), seconds))
        chunk = os.read(pipe, _CHUNK)
        if not chunk:
            return bytes(said)
        said += chunk


def _outcome(said: bytes) -> Outcome:
    lines = [json.loads(line) for line in said.splitlines()]
    statements = [Statement(**line["statement"]) for line in lines if "statement" in line]
    failed: dict[str, str] = next((line for line in lines if "error" in line), {})
    has_crashed = any("crashed" in line for line in lines)
    return Outcome(statements, has_crashed, failed.get("error"), failed.get("summary"))


def _too_slow(said: bytes, seconds: float) -> str:
    last = _outcome(said.rpartition(b"\n")[0]).statements[-1:]
    after = f" Its last statement was: {last[0].text}" if last else ""
    return (
        f"A run did not end within {seconds:g} s and was killed.{after} If the handler needs "
        "longer, pass crash_everywhere(..., timeout=...)."
    )
