from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost.embedded import cluster
from milepost.embedded.account import Account
from milepost.errors import EmbeddedError


def test_data_of_another_version_say_so_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedError, match=r"created by PostgreSQL 16.*open it with version 16"):
        cluster.require_version(tmp_path, 18)


def test_data_of_the_same_version_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("18\n")
    cluster.require_version(tmp_path, 18)


def test_a_directory_without_a_version_is_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="not a readable PostgreSQL data directory"):
        cluster.require_version(tmp_path, 18)


def test_a_link_to_lost_data_is_an_error_not_an_empty_database(tmp_path: Path) -> None:
    (tmp_path / "postgres").symlink_to(tmp_path / "lost")
    with pytest.raises(EmbeddedError, match="lost, which does not exist"):
        cluster.find(tmp_path)


@pytest.mark.parametrize("name", ['a"b', "a$(b)", "a`b`", "a\\b"])
def test_a_path_that_pg_ctl_would_give_to_the_shell_is_refused(tmp_path: Path, name: str) -> None:
    us = Account(os.geteuid(), os.getegid())
    with pytest.raises(EmbeddedError, match="must not contain"):
        cluster.create(tmp_path / name, us, Path("/bin/true"))


def test_a_failed_initdb_leaves_nothing_behind(tmp_path: Path) -> None:
    us = Account(os.geteuid(), os.getegid())
    with pytest.raises(EmbeddedError, match="cannot create a database"):
        cluster.create(tmp_path, us, Path("/bin/false"))
    assert list(tmp_path.iterdir()) == []
