from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.embedded import socket_place
from milepost.embedded.account import Account
from milepost.errors import EmbeddedError


@pytest.fixture
def us() -> Account:
    return Account(os.geteuid(), os.getegid())


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short TMPDIR of the test's own: pytest's paths are too long to hold a socket."""
    with tempfile.TemporaryDirectory(prefix="mp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield Path(short).resolve()


def test_the_url_quotes_the_directory() -> None:
    url = socket_place.url(Path("/a b/ü&"), "my db")
    assert url == "postgresql://postgres@/my%20db?host=%2Fa%20b%2F%C3%BC%26&port=5432"


def test_a_short_path_holds_its_own_socket(us: Account, temporary: Path) -> None:
    assert socket_place.directory_for(temporary, us) == temporary


@pytest.mark.parametrize("name", ["x" * 120, "a,b"])
def test_a_long_path_or_one_with_a_comma_gets_a_private_directory(
    us: Account, temporary: Path, name: str
) -> None:
    data = temporary / name
    data.mkdir(mode=0o700)
    found = socket_place.directory_for(data, us)
    assert found.parent == temporary
    assert found != data
    assert found.stat().st_mode & 0o777 == 0o700
    assert socket_place.directory_for(data, us) == found


def test_different_data_have_different_directories(us: Account, temporary: Path) -> None:
    one, other = (socket_place.directory_for(temporary / (c * 120), us) for c in "ab")
    assert one != other


@pytest.mark.parametrize("squat", ["open", "link"])
def test_a_directory_someone_prepared_is_refused(us: Account, temporary: Path, squat: str) -> None:
    data = temporary / ("x" * 120)
    place = socket_place.directory_for(data, us)
    place.rmdir()
    if squat == "open":
        place.mkdir()
        place.chmod(0o777)
    else:
        (temporary / "theirs").mkdir(mode=0o700)
        place.symlink_to(temporary / "theirs")
    with pytest.raises(EmbeddedError, match="refusing"):
        socket_place.directory_for(data, us)
