"""Programs without the second that Python takes to import Milepost: a process that has imported
everything forks one for each.

What is forked is a process like any other, with its own arguments, environment, directory and
standard streams. How a command is started for real is what `Cli.start` tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

STREAMS = 3
ROOT = Path(__file__).parents[1]
# What commands import when they need it, or Python when it ends.
LATE = (
    "adbc_driver_postgresql.dbapi",
    "milepost.archive.upkeep",
    "milepost.log.history.cold",
    "pyarrow.dataset",
    "rich.table",
    "typer._adapters",
)


@cache
def zygote() -> socket.socket:
    """The way to this process's zygote."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Warnings are errors, as for the commands that are started for real.
    command = [sys.executable, "-W", "error", "-m", __name__, str(its.fileno())]
    with its:
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[its.fileno()])
    atexit.register(_end, ours, process)
    return ours


def _end(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """It ends when nobody can ask it any more."""
    ours.close()
    process.wait()


@dataclass(slots=True)
class Process:
    """What is used of `subprocess.Popen`, for a process that is not our child."""

    pid: int
    _answer: socket.socket = field(repr=False)
    stdout: IO[str] | None = None
    returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(TimeoutError, BlockingIOError):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._answer.settimeout(timeout)
            self.returncode = int(self._answer.recv(100))
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Its id stays its own until `close`, also if it has ended."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """If it still runs."""
        self.kill()
        self.wait()
        self.close()

    def close(self) -> None:
        if self.stdout is not None:
            self.stdout.close()
        self._answer.close()


@contextmanager
def started(program: Sequence[str], *, has_output: bool = False) -> Iterator[Process]:
    """It is ended at the end of the block."""
    process = start_with_output(program) if has_output else start(program)
    try:
        yield process
    finally:
        process.end()


def start(program: Sequence[str], output: int = 1) -> Process:
    """In the root of the project. It prints where we print, unless told otherwise."""
    with Path(os.devnull).open() as nothing:
        return _start(program, os.environ, [nothing.fileno(), output, 2], ROOT)


def start_with_output(program: Sequence[str]) -> Process:
    reading, writing = os.pipe()
    process = start(program, writing)
    os.close(writing)
    process.stdout = os.fdopen(reading)
    return process


def run(
    program: Sequence[str],
    environment: Mapping[str, str],
    stdin: str = "",
    timeout: float = 120,
    directory: Path | None = None,
) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a program: `milepost read`, `python -m package.module` or
    `python path/of/a/file.py`."""
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(stdin)
        given.seek(0)
        streams = [stream.fileno() for stream in (given, out, err)]
        process = _start(program, environment, streams, directory or Path.cwd())
        try:
            code = process.wait(timeout)
        except TimeoutError:
            process.kill()
            raise
        finally:
            process.close()
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def _start(
    program: Sequence[str], environment: Mapping[str, str], streams: Sequence[int], directory: Path
) -> Process:
    return start_at(zygote(), program, environment, streams, directory)


def start_at(
    way: socket.socket,
    program: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[int],
    directory: Path,
) -> Process:
    """By the zygote at the other end of the way."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its, tempfile.TemporaryFile() as request:
        request.write(json.dumps([list(program), dict(environment), str(directory)]).encode())
        request.seek(0)
        files = [*streams, its.fileno(), request.fileno()]
        socket.send_fds(way, [b"run"], files)
    return Process(int(ours.recv(100)), ours)


def serve(requests: socket.socket) -> None:
    """Until whoever asks is gone."""
    from milepost.cli import app

    for module in LATE:
        importlib.import_module(module)  # what forking saves
    app.app_for([])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # What is not looked through by the collector stays shared with those that are forked.
    gc.collect()
    gc.freeze()
    while True:
        _, files, _, _ = socket.recv_fds(requests, 100, STREAMS + 2)
        if not files:
            return
        if os.fork() == 0:
            requests.close()
            _attend(files)
        for file in files:
            os.close(file)


def _attend(files: list[int]) -> NoReturn:
    """Run the program in a further process, and tell its id and its exit code. It stays a zombie,
    so that nobody else gets its id, until whoever asked has closed the answer."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answer = socket.socket(fileno=files[STREAMS])
    with os.fdopen(files[STREAMS + 1]) as file:
        request = json.load(file)
    pid = os.fork()
    if pid == 0:
        answer.close()
        _become(files[:STREAMS], *request)
    for stream in files[:STREAMS]:
        os.close(stream)
    answer.send(str(pid).encode())
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    with suppress(BrokenPipeError):  # it took too long for whoever asked
        answer.send(str(code).encode())
        answer.recv(1)
    os._exit(0)


def _become(streams: list[int], program: list[str], environment: Any, directory: str) -> NoReturn:
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    if "PYTHONUNBUFFERED" in environment:
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]  # a TextIOWrapper
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    code = _ended(program, [directory, *paths])
    # What Python does when it ends, without freeing every object: each would be copied for that.
    threading._shutdown()  # type: ignore[attr-defined]  # what waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _ended(program: list[str], paths: list[str]) -> int:
    """The exit code of a program that runs in this process."""
    try:
        _run(program, paths)
    except SystemExit as exc:
        if isinstance(exc.code, str):
            sys.stderr.write(f"{exc.code}\n")
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        return 1
    return 0


def _run(program: list[str], paths: list[str]) -> None:
    from milepost.cli import main

    name, *arguments = program
    sys.path[0:1] = paths
    if name == "milepost":
        sys.argv = program
        main()
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).parent)
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        serve(asked)
