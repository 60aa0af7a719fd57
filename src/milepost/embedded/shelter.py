"""A place of root's that unprivileged accounts can reach, for what they cannot reach in place.

Used only as root, when the project lies behind a directory closed to the server's account
(`/root`, mode 0700): opening that directory is not ours to decide.
"""

from __future__ import annotations

import stat
from pathlib import Path

from milepost.errors import EmbeddedError

SHELTER = Path("/var/lib/milepost")


def shelter() -> Path:
    try:
        SHELTER.mkdir()
        SHELTER.chmod(0o755)  # whatever the umask; only just created, so it is ours to open
    except FileExistsError:
        pass
    except OSError as exc:
        raise EmbeddedError(
            f"the server's account cannot reach this place, and {SHELTER} cannot be created "
            f"instead: {exc}. Use a directory all accounts can enter, run as an unprivileged "
            "user, or set MILEPOST_URL to a server of yours"
        ) from exc
    _require_of_root(SHELTER)
    return SHELTER


def _require_of_root(path: Path) -> None:
    # Programs are run from here: nobody else may be able to put any in.
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise EmbeddedError(
            f"{path} must be a directory that only root can write to, but is "
            f"{stat.filemode(found.st_mode)} of uid {found.st_uid}: refusing to use it"
        )
