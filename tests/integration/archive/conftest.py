from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.log.history import Location
from milepost.log.history.cold import forget_files
from tests.archiving import Archive, archiving, use_archive


@pytest.fixture
def archive(url: str, tmp_path: Path) -> Iterator[Archive]:
    """An archive in a directory of this test."""
    with archiving(url, Location.parse(str(tmp_path / "archive"))) as found:
        use_archive(found.conn, found.location)
        yield found
    forget_files()
