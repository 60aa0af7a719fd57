"""Commands without the second that Python takes to import them: a process that has imported
everything forks one for each.

What is forked is a process like any other, with its own arguments, environment, directory and
standard streams. How a command is started for real is what `Cli.start` tests.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

STREAMS = 3
ROOT = Path(__file__).parents[3]


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


def run(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: str, timeout: float
) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of the command `milepost` with these arguments."""
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(stdin)
        given.seek(0)
        code = _ask(arguments, environment, [given, out, err], timeout)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def _ask(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[IO[str]],
    timeout: float,
) -> int:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its, tempfile.TemporaryFile() as request:
        request.write(json.dumps([list(arguments), dict(environment), str(Path.cwd())]).encode())
        request.seek(0)
        files = [*(stream.fileno() for stream in streams), its.fileno(), request.fileno()]
        socket.send_fds(zygote(), [b"run"], files)
        its.close()
        pid = int(ours.recv(100))
        ours.settimeout(timeout)
        try:
            return int(ours.recv(100))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise


def serve(requests: socket.socket) -> None:
    """Until whoever asks is gone."""
    from milepost.cli import app

    for module in ("typer._adapters", "rich.table"):
        importlib.import_module(module)  # what forking saves
    app.app_for([])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        _, files, _, _ = socket.recv_fds(requests, 100, STREAMS + 2)
        if not files:
            return
        if os.fork() == 0:
            _attend(files)
        for file in files:
            os.close(file)


def _attend(files: list[int]) -> NoReturn:
    """Run the command in a further process, and tell its id and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answer = socket.socket(fileno=files[STREAMS])
    with os.fdopen(files[STREAMS + 1]) as file:
        request = json.load(file)
    pid = os.fork()
    if pid == 0:
        answer.close()
        _become(files[:STREAMS], *request)
    answer.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # it took too long for whoever asked
        answer.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(streams: list[int], arguments: list[str], environment: Any, directory: str) -> NoReturn:
    from milepost.cli import main

    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = ["milepost", *arguments]
    sys.path[0] = directory
    main()
    sys.exit(0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        serve(asked)
