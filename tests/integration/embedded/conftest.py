"""Real servers in directories of their own; whatever a test starts is stopped at its end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.server import memory

import milepost.embedded
from milepost.embedded import EmbeddedServer

MakeServer = Callable[..., EmbeddedServer]
RunPython = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Reachable for every account, unlike pytest's tmp_path, which is closed to all but us."""
    with tempfile.TemporaryDirectory(prefix="mp-test-", dir=memory()) as path:
        Path(path).chmod(0o755)
        yield Path(path).resolve()


@pytest.fixture
def make_server(open_directory: Path) -> Iterator[MakeServer]:
    made: list[EmbeddedServer] = []

    def make(directory: Path = open_directory / "mp", **options: object) -> EmbeddedServer:
        made.append(EmbeddedServer(directory, **options))  # type: ignore[arg-type]  # passed on
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def server(make_server: MakeServer) -> EmbeddedServer:
    return make_server()


@pytest.fixture
def run_python() -> RunPython:
    """Run a script in a process of its own that can import milepost, with piped output."""

    def run(
        script: str, *arguments: str | Path, paths: tuple[Path, ...] = ()
    ) -> subprocess.Popen[str]:
        source = Path(milepost.embedded.__file__).parents[2]
        return subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*paths, source)))},
        )

    return run
