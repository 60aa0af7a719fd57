"""What guards a server without passwords: a directory that is ours alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost.embedded.account import Account
from milepost.errors import EmbeddedError


@pytest.fixture
def us() -> Account:
    return Account(os.geteuid(), os.getegid())


def test_a_private_directory_is_created_with_mode_0700(us: Account, tmp_path: Path) -> None:
    us.make_private_directory(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_private_directory_of_ours_is_used_again(us: Account, tmp_path: Path) -> None:
    us.make_private_directory(tmp_path / "new")
    us.make_private_directory(tmp_path / "new")


def test_a_directory_open_to_others_is_refused_and_left_as_it_is(
    us: Account, tmp_path: Path
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(EmbeddedError, match="mode 0700"):
        us.make_private_directory(tmp_path / "open")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o755


def test_a_symlink_is_refused_even_to_a_private_directory(us: Account, tmp_path: Path) -> None:
    us.make_private_directory(tmp_path / "target")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(EmbeddedError, match="refusing"):
        us.make_private_directory(tmp_path / "link")


def test_a_directory_of_someone_else_is_refused(us: Account, tmp_path: Path) -> None:
    us.make_private_directory(tmp_path / "ours")
    with pytest.raises(EmbeddedError, match="refusing"):
        Account(us.uid + 1, us.gid).require_private(tmp_path / "ours")


def test_programs_do_not_see_our_environment(us: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "elsewhere")
    monkeypatch.setenv("SECRET", "hunter2")
    assert "LC_ALL=C" in (shown := us.run("/usr/bin/env").stdout)
    assert "elsewhere" not in shown
    assert "hunter2" not in shown


def test_a_program_that_cannot_run_is_our_error(us: Account, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="cannot run"):
        us.run(tmp_path / "missing")
