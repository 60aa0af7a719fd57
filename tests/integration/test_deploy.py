"""The files in deploy/, as far as this machine can run them. Whether Kubernetes knows the fields of
its file is in tests/pipeline."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests import zygote
from tests.roles import run
from tests.server import TestServer

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "milepost.service"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
KUBERNETES = ROOT / "deploy" / "kubernetes.yaml"
APP = """
from milepost import Milepost

mp = Milepost()


@mp.processor("billing")
def bill(messages, tx): ...


@mp.worker("mails")
def send(job): ...
"""
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


def test_the_containers_do_their_work_in_order_under_their_roles(
    empty_database: str, server: TestServer, tmp_path: Path
) -> None:
    """Each command of the file, with the URL of its role."""
    (tmp_path / "app.py").write_text(APP)
    names = {key: f"milepost_{key}_{uuid4().hex[:8]}" for key in ("app", "watch")}
    urls = {
        "owner-url": empty_database,
        "url": make_conninfo(empty_database, user=names["app"]),
        "metrics-url": make_conninfo(empty_database, user=names["watch"]),
    }
    with psycopg.connect(empty_database, autocommit=True) as conn:
        for name in names.values():
            run(conn, "create role {} login", name)
        try:
            said = {
                container: _said(
                    [names.get(w, w) for w in words], urls[key], tmp_path, name=container
                )
                for container, words, key in containers()
            }
        finally:
            for name in names.values():
                run(conn, "drop owned by {} cascade", name)
                run(conn, "drop role {}", name)
    assert list(said) == ["migrate", "grant-app", "grant-watch", "milepost", "exporter", "doctor"]
    assert json.loads(said["doctor"])["problems"] == []
    assert "log messages 0" in said["exporter"].splitlines()


def _said(words: list[str], url: str, place: Path, *, name: str) -> str:
    """What does not end is told to: the application when nothing is left to do, the exporter by
    answering once."""
    if name == "milepost":
        words = [*words, "--until", "caught_up"]
    if name == "exporter":
        words = words[: words.index("--listen")]
    words = ["127.0.0.1:0" if word.startswith("0.0.0.0:") else word for word in words]
    environment = {**os.environ, "MILEPOST_URL": url}
    code, output, errors = zygote.run(words, environment, timeout=240, directory=place)
    assert code == 0, (name, output, errors)
    return output


def containers() -> list[tuple[str, list[str], str]]:
    """Name, words after the program, and key of the URL, in the order of the file."""
    found = re.findall(
        r"- name: ([\w-]+)\n +image: .*?command: \[(.*?)\].*?key: ([\w-]+)\}",
        KUBERNETES.read_text(),
        re.DOTALL,
    )
    return [(name, re.split(r'"?, "?', words.strip('"')), key) for name, words, key in found]


def unit() -> ConfigParser:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    parser.read(UNIT)
    return parser


def instructions(name: str) -> list[list[str]]:
    lines = CONTAINERFILE.read_text().splitlines()
    return [line.split()[1:] for line in lines if line.startswith(f"{name} ")]
