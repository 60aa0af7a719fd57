"""A directory of root that unprivileged accounts can access, for data and programs.

Used only as root, if the server's account cannot access the project's directory (such as `/root`,
mode 0700). We must not change the permissions of that directory.
"""

from __future__ import annotations

import stat
from pathlib import Path

from milepost.errors import EmbeddedError

SHELTER = Path("/var/lib/milepost")


def shelter() -> Path:
    try:
        SHELTER.mkdir()
        SHELTER.chmod(0o755)  # independent of the umask; allowed because we have just created it
    except FileExistsError:
        pass
    except OSError as exc:
        raise EmbeddedError(
            f"the server's account cannot access this directory, and {SHELTER} cannot be created "
            f"instead: {exc}. Use a directory that all accounts can enter, run as an unprivileged "
            "user, or set MILEPOST_URL to your own server"
        ) from exc
    _require_of_root(SHELTER)
    return SHELTER


def _require_of_root(path: Path) -> None:
    # Programs are run from here: no other user may be able to write here.
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise EmbeddedError(
            f"{path} must be a directory that only root can write to, but is "
            f"{stat.filemode(found.st_mode)} of uid {found.st_uid}: refusing to use it"
        )
