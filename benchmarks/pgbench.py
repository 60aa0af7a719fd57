"""PostgreSQL's own load generator, which costs far less than a client in Python would."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from milepost.embedded import EmbeddedServer

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = 8


def transactions_per_second(url: str, script: Path, seconds: int, settings: str = "") -> float:
    """How often `CLIENTS` clients run the script; `settings` are those of their sessions."""
    run = subprocess.run(
        command(url, script, "--client", str(CLIENTS), "--jobs", "2", "--time", str(seconds)),
        env=environment(url) | {"PGOPTIONS": settings},
        check=True,
        capture_output=True,
        text=True,
    )
    found = re.search(r"^tps = ([\d.]+)", run.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"pgbench said nothing of tps: {run.stdout}")
    return float(found[1])


def command(url: str, script: Path, *options: str) -> list[str]:
    program = str(EmbeddedServer().bin("pgbench"))
    # Without the password, which everyone on the machine could read here.
    target = make_conninfo(url, password=None)
    return [
        program,
        "--no-vacuum",
        "--protocol",
        "prepared",
        "--file",
        str(script),
        *options,
        target,
    ]


def environment(url: str) -> dict[str, str]:
    password = conninfo_to_dict(url).get("password")
    return os.environ | ({"PGPASSWORD": str(password)} if password else {})
