"""The files in deploy/, as far as this machine can run them. Kubernetes' is in tests/pipeline."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "milepost.service"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
EMBEDDED_OFF = "MILEPOST_EMBEDDED=off"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With the program and the user of this machine in it: it looks for both."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze")
    here = str(Path(sys.executable).parent)
    text = UNIT.read_text().replace("/srv/milepost/.venv/bin", here)
    copy = tmp_path / UNIT.name
    copy.write_text(text.replace("User=milepost", "User=root"))
    done = subprocess.run(
        [program, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    about = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, about) == (0, [])


def test_systemd_refuses_a_unit_that_is_wrong(tmp_path: Path) -> None:
    """Or the test above would be true of any unit."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("KillMode=mixed", "KillMode=kindly"))
    done = subprocess.run(
        [program, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert "kill mode" in done.stderr


def test_the_unit_waits_longer_than_a_batch_may_take_to_end() -> None:
    service = unit()["Service"]
    found = re.search(r"--stop-seconds (\d+)", service["ExecStart"])
    assert found is not None
    assert int(service["TimeoutStopSec"]) > int(found[1])


def test_neither_starts_a_database_of_its_own() -> None:
    assert f"Environment={EMBEDDED_OFF}" in UNIT.read_text().splitlines()
    assert EMBEDDED_OFF in CONTAINERFILE.read_text()


def test_what_the_image_is_built_from_is_there() -> None:
    """And it is all that the package's description names."""
    copied = {word for words in instructions("COPY") if "--from" not in words[0] for word in words}
    assert {name for name in copied - {"./"} if not (ROOT / name).exists()} == set()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project.get("license-files", [])} <= copied


def test_images_are_named_without_a_registry() -> None:
    names = [words[0] for words in instructions("FROM")]
    assert names
    assert [name for name in names if "/" in name] == []


def unit() -> ConfigParser:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    parser.read(UNIT)
    return parser


def instructions(name: str) -> list[list[str]]:
    lines = CONTAINERFILE.read_text().splitlines()
    return [line.split()[1:] for line in lines if line.startswith(f"{name} ")]
