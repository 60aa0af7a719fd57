"""Whether anybody listens where a Spark cluster should be: Spark itself would try for minutes, and
then fail with a stack."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from milepost.errors import SparkMasterUnreachable

CONNECT_SECONDS = 5.0
_STANDALONE, _CONNECT = "spark://", "sc://"
_PORTS = {_STANDALONE: 7077, _CONNECT: 15002}


def addresses(master: str) -> list[tuple[str, int]]:
    """Of a standalone cluster, whose masters may be several, or of a Connect server. Others are
    not checked here. Pure."""
    scheme = next((each for each in _PORTS if master.startswith(each)), None)
    if scheme is None:
        return []
    listed = master.removeprefix(scheme)
    hosts = listed.split(",") if scheme == _STANDALONE else [listed.split("/")[0].split(";")[0]]
    parts = [urlsplit(f"//{host}") for host in hosts]
    return [(part.hostname, part.port or _PORTS[scheme]) for part in parts if part.hostname]


def refuse_unreachable(master: str, seconds: float = CONNECT_SECONDS) -> None:
    """One that answers is enough: Spark finds the leader."""
    wanted = addresses(master)
    problems = []
    for host, port in wanted:
        problem = connect_problem(host, port, seconds)
        if problem is None:
            return
        problems.append(f"{host}:{port}: {problem}")
    if problems:
        shown = master.split(";")[0]  # what follows may be a token
        raise SparkMasterUnreachable(shown, problems)


def connect_problem(host: str, port: int, seconds: float) -> str | None:
    """None if somebody listens there."""
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
    return None
