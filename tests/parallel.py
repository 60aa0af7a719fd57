"""How the suite is shared out over several processes (pytest-xdist).

A file is never split, so that what its tests share is made once. The tests that use a Spark session
are two shares of about the same length: each share starts a session, which takes a while, but a
single one would take longer than all other tests. Files whose tests start a Spark of their own, in
other processes, are not among them. The longest shares begin first: whoever gets one last would let
the others wait.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# What takes longest begins first.
FIRST = (
    "tests/pipeline",
    "tests/chaos",
    "tests/integration/cli",
    "tests/integration/processors",
    "tests/integration/queue",
    "tests/integration",
)
SPARK = "tests/pipeline"
# The second of its shares.
SECOND_SPARK = (
    f"{SPARK}/source/",
    f"{SPARK}/engine/",
    f"{SPARK}/rebuild/",
    f"{SPARK}/run/test_server_crash.py",
    f"{SPARK}/run/test_stateful.py",
)
# They use no session of their worker.
WITHOUT_SESSION = (
    f"{SPARK}/connect/",
    f"{SPARK}/run/test_configuration.py",
    f"{SPARK}/run/test_secrets.py",
    f"{SPARK}/source/test_secrets.py",
    f"{SPARK}/test_java_runtime.py",
)
WORKERS_BEYOND_CORES = 2  # for the time in which a test only waits


class Shares(LoadScopeScheduling):  # type: ignore[misc]  # xdist comes without types
    """Hands out files, and the Spark tests as two."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)


def share_of(nodeid: str) -> str:
    path = nodeid.partition("::")[0]
    if not _is_below(path, SPARK) or path.startswith(WITHOUT_SESSION):
        return path
    return f"{SPARK} {1 + path.startswith(SECOND_SPARK)}"


def rank_of(nodeid: str) -> int:
    """Its place among the shares; the sort that uses it keeps the order of equals."""
    path = nodeid.partition("::")[0]
    return next((n for n, place in enumerate(FIRST) if _is_below(path, place)), len(FIRST))


def worker_count(arguments: Sequence[str]) -> int:
    """For what the command line names: single files are one share each, and a unit test is over
    before a worker has started."""
    paths = [PurePosixPath(argument.partition("::")[0]) for argument in arguments]
    if all(path.suffix == ".py" or "unit" in path.parts for path in paths):
        return 0
    return (os.cpu_count() or 1) + WORKERS_BEYOND_CORES


def _is_below(path: str, place: str) -> bool:
    return path.startswith(f"{place}/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return worker_count(config.args)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares:
    return Shares(config, log)
