from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.embedded import EmbeddedServer
from tests.integration.cli.command import Cli
from tests.server import memory


@pytest.fixture
def cli(url: str) -> Cli:
    return Cli(url)


@pytest.fixture
def directory() -> Iterator[Path]:
    """For an embedded server, which is stopped and removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="milepost-cli-", dir=memory()))
    place.chmod(0o755)  # as root, the server runs as another user
    yield place
    EmbeddedServer(place).stop()
    shutil.rmtree((place / "postgres").resolve(), ignore_errors=True)
    shutil.rmtree(place)
