"""A SPARK_HOME whose Python processes import PySpark as it is installed.

Spark puts the archive `python/lib/pyspark.zip` of its home before everything else on the path of
each Python process that it starts: for its workers, for a source, for each stream. Python compiles
what it imports from an archive again in each process. In a home without the archive the processes
import the installed package, which is the same version: they start in half the time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from milepost.embedded.java import cache_of

VARIABLE = "SPARK_HOME"
_PYTHON = "python"  # the part with the archive
_INSTALLED = Path(pyspark.__file__).parent


@contextmanager
def without_archive(master: str, environ: MutableMapping[str, str], program: str) -> Iterator[None]:
    """Spark's launcher, started within the block, finds such a home, if `program` runs all of
    Spark's Python processes: not on a cluster, which may be sent the archive. A home that somebody
    has chosen stays."""
    if not _is_possible(master, environ, program):
        yield
        return
    environ[VARIABLE] = str(home_of(_INSTALLED, cache_of(environ)))
    try:
        yield
    finally:
        del environ[VARIABLE]


def _is_possible(master: str, environ: MutableMapping[str, str], program: str) -> bool:
    is_ours = environ.get("PYSPARK_PYTHON") == program and VARIABLE not in environ
    return is_ours and master.startswith("local") and (_INSTALLED / "bin" / "spark-submit").exists()


def home_of(installed: Path, cache: Path) -> Path:
    """Links to everything of the installed one but the archive."""
    version = (installed / "version.py").read_bytes()
    name = hashlib.sha256(os.fsencode(installed) + version).hexdigest()[:8]
    home = cache / f"spark-{name}"
    if not home.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Under another name first: another process may be starting Spark with it.
        unfinished = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=cache))
        for part in installed.iterdir():
            if part.name != _PYTHON:
                (unfinished / part.name).symlink_to(part)
        _rename(unfinished, home)
    return home


def _rename(unfinished: Path, home: Path) -> None:
    try:
        unfinished.rename(home)
    except OSError:
        if not home.exists():
            raise
        shutil.rmtree(unfinished)  # another process was first
