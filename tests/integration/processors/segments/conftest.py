from __future__ import annotations

import pytest

from tests.integration.cli.command import Cli


@pytest.fixture
def cli(url: str) -> Cli:
    return Cli(url)
