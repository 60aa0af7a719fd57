"""The peers that can be had here: installed on demand below `.peers/`, tried once, and left out
with a note where either fails. Nothing of theirs comes into Milepost's own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_TARGET = _ROOT / ".peers"
_PYTHON = _TARGET / "python" / "bin" / "python"
_NODE_MODULES = _TARGET / "node_modules"
_LONGEST_SECONDS = 900
# What libpq calls them, and so does every driver.
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
}


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    command: tuple[str, ...]
    kind: tuple[str, ...] = ()  # of its jobs, if it has several

    def fill(self, url: str, count: int) -> None:
        self._run(url, "fill", count)

    def drain(self, url: str, count: int) -> float:
        """The seconds that it took."""
        return float(self._run(url, "drain", count).split()[-1])

    def _run(self, url: str, command: str, count: int) -> str:
        return _output([*self.command, command, str(count), *self.kind], _environment(url))


def peers() -> list[Peer]:
    """Those that could be installed."""
    return [
        *_installed(
            _install_python,
            Peer("pgqueuer", (str(_PYTHON), "-m", "benchmarks.peers.drain_pgqueuer")),
            Peer("awa-pg", (str(_PYTHON), "-m", "benchmarks.peers.drain_awa")),
        ),
        *_installed(
            _install_node,
            Peer("graphile-worker", ("node", str(_HERE / "drain_graphile.cjs"))),
        ),
    ]


def upserting() -> list[Peer]:
    """Those that could be installed, with jobs of one upsert each."""
    return [
        *_installed(
            _install_node,
            Peer("graphile-worker", ("node", str(_HERE / "drain_graphile.cjs")), ("upsert",)),
        ),
        *_installed(
            _install_python,
            Peer("procrastinate", (str(_PYTHON), "-m", "benchmarks.peers.upsert_procrastinate")),
        ),
    ]


def note_missing(names: str, error: Exception) -> None:
    said = getattr(error, "stderr", None) or str(error)
    print(f"left out: {names}: {said.strip().splitlines()[-1]}", file=sys.stderr, flush=True)


def _installed(install: Callable[[], None], *offered: Peer) -> tuple[Peer, ...]:
    try:
        install()
    except (OSError, subprocess.SubprocessError) as error:
        note_missing(", ".join(peer.name for peer in offered), error)
        return ()
    return offered


def _install_python() -> None:
    wanted, had = _HERE / "requirements.txt", _TARGET / "python" / "requirements.txt"
    if _is_same(wanted, had):
        return
    _output([sys.executable, "-m", "venv", "--clear", str(_TARGET / "python")])
    _output([str(_PYTHON), "-m", "pip", "install", "--quiet", "--requirement", str(wanted)])
    shutil.copyfile(wanted, had)


def _install_node() -> None:
    wanted, had = _HERE / "package.json", _NODE_MODULES / "package.json"
    if _is_same(wanted, had):
        return
    _TARGET.mkdir(exist_ok=True)
    shutil.copyfile(wanted, _TARGET / "package.json")
    # No lock file: it would name the registry that this machine happens to use.
    _output(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], cwd=_TARGET)
    shutil.copyfile(wanted, had)


def _is_same(wanted: Path, had: Path) -> bool:
    """What was installed is noted beside it, last: half an installation counts for nothing."""
    return had.exists() and had.read_text() == wanted.read_text()


def _environment(url: str) -> dict[str, str]:
    given = conninfo_to_dict(url)
    target = {variable: str(given[key]) for key, variable in _VARIABLES.items() if given.get(key)}
    return os.environ | target | {"NODE_PATH": str(_NODE_MODULES)}


def _output(
    command: list[str], environment: dict[str, str] | None = None, cwd: Path = _ROOT
) -> str:
    return subprocess.run(
        command,
        env=environment,
        cwd=cwd,
        check=True,
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
    ).stdout
