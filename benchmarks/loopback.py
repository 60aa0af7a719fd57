"""A server that listens on TCP, for what cannot use a unix socket: Java's drivers. The embedded
one never listens, so this is a cluster of its own from the same programs, with a password."""

from __future__ import annotations

import secrets
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from milepost.embedded.account import Account, account_for_new_data
from milepost.embedded.binaries import runnable_by
from milepost.errors import EmbeddedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VERSION = 18


@contextmanager
def loopback_server(directory: Path) -> Iterator[str]:
    """Its URL, password included; the server ends with the block."""
    account = account_for_new_data()
    programs = runnable_by(account, _VERSION)
    password, port = secrets.token_urlsafe(), _free_port()
    data = directory / f"loopback-{port}"  # several figures of a run have one each
    account.make_private_directory(data)
    _initialize(account, programs, data, password)
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories="
    _run(
        account,
        programs / "pg_ctl",
        "-D",
        data / "cluster",
        "-l",
        data / "log",
        "-o",
        options,
        "-w",
        "start",
    )
    try:
        yield f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
    finally:
        _run(account, programs / "pg_ctl", "-D", data / "cluster", "-m", "immediate", "stop")


def _initialize(account: Account, programs: Path, data: Path, password: str) -> None:
    # Within a directory that only the account can enter; initdb wants its own one empty.
    _run(account, "/bin/sh", "-c", 'umask 077; printf %s "$1" > "$2"', "sh", password, data / "pw")
    _run(
        account, programs / "initdb", "-D", data / "cluster", "--username=postgres",
        "--encoding=UTF8", "--no-locale", "--auth=scram-sha-256", f"--pwfile={data / 'pw'}",
    )  # fmt: skip


def _run(account: Account, *command: str | Path) -> None:
    done = account.run(*command)
    if done.returncode:
        raise EmbeddedError(f"{command[0]} failed: {done.stdout.strip()}")


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port: int = door.getsockname()[1]
        return port
