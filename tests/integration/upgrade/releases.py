"""Two made-up releases after this one, which show what a release may change, and how.

The next one adds a column to `jobs`, and an argument to a function that workers call all the time.
The one after it drops what only the code of this release calls.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from milepost import sql

HERE = Path(__file__).parent
SOURCE = Path(__file__).parents[3] / "src"
LAST = sql.migrations()[-1].number
NEXT_LAST = LAST + len(list((HERE / "next").glob("*.sql")))
# What the code of the next release is, beside its migrations: file, what is replaced, by what.
CHANGES = (
    ("functions/heartbeat.sql", "begun boolean[] default null\n",
     "begun boolean[] default null,\n  note text default null\n"),
    ("functions/heartbeat.sql", "set locked_until =",
     "set note = coalesce(heartbeat.note, j.note), locked_until ="),
    ("queries/queue_heartbeat.sql", "%(begun)b::boolean[]", "%(begun)b::boolean[], 'of the next'"),
)  # fmt: skip


def make_next(place: Path) -> Path:
    """The code of the next release, importable from the directory that is returned."""
    made = _with_migrations(SOURCE, place, "next", LAST)
    for file, before, after in CHANGES:
        _replace(made / "milepost" / "sql" / file, re.escape(before), after)
    return made


def make_later(following: Path, place: Path) -> Path:
    """The code of the release after the next one."""
    return _with_migrations(following, place, "later", NEXT_LAST)


def _with_migrations(source: Path, place: Path, name: str, before: int) -> Path:
    """`before` is the last migration of the previous release, whose code still runs."""
    made = place / name
    shutil.copytree(source, made, ignore=shutil.ignore_patterns("__pycache__"))
    package = made / "milepost" / "sql"
    for file in (HERE / name).glob("*.sql"):
        number, _, rest = file.name.partition("_")
        shutil.copy(file, package / "migrations" / f"{before + int(number):04}_{rest}")
    _replace(package / "__init__.py", r"(?m)^OLDEST_CODE = \d+", f"OLDEST_CODE = {before}")
    return made


def _replace(file: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, lambda _match: text, file.read_text())
    assert count == 1, f"{file}: {pattern}"
    file.write_text(changed)
