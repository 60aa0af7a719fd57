"""The quickstart needs nothing but `pip install 'milepost[embedded]'`: here it runs without a
database that anybody has set up, and cannot import what that would not have installed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from milepost import db
from milepost.embedded import EmbeddedServer
from tests.documents.blocks import ROOT, to_run
from tests.documents.reader import Reader
from tests.waiting import wait_until

QUICKSTART = ROOT / "docs" / "quickstart.md"
# Python imports it when it starts.
BLOCKER = """
import sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"not installed by milepost[embedded]: {{name}}", name=name)


sys.meta_path.insert(0, Blocker())
"""


class Newcomer(Reader):
    """Has the server that starts by itself, and commands that are started for real."""

    @property
    def url(self) -> str:
        found = EmbeddedServer(self.directory / ".milepost").url()
        assert found is not None
        return found

    def _popen(self, script: str, programs: Iterable[Path] = ()) -> subprocess.Popen[str]:
        return super()._popen(script)


@pytest.fixture
def newcomer(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Newcomer]:
    for name in [name for name in os.environ if name.startswith(("MILEPOST_", "PG"))]:
        monkeypatch.delenv(name)
    place = tmp_path_factory.mktemp("blocker")
    (place / "sitecustomize.py").write_text(BLOCKER.format(names=not_installed()))
    monkeypatch.setenv("PYTHONPATH", str(place))
    with Path(os.devnull).open() as nothing:
        yield Newcomer(tmp_path, nothing.fileno())
    EmbeddedServer(tmp_path / ".milepost").stop()


def test_it_needs_nothing_else(newcomer: Newcomer) -> None:
    with newcomer.reading(to_run(QUICKSTART)):
        wait_until(lambda: has_handled(newcomer.url, 42 + 7 + 5))
    mails = re.findall(r"mail about order (\d)", newcomer.said)
    assert sorted(mails) == ["1", "2", "3"], newcomer.said


def test_what_is_not_installed_cannot_be_imported(newcomer: Newcomer) -> None:
    assert {"pyspark", "pyarrow", "sqlalchemy", "starlette"} <= not_installed()
    newcomer.finish("python -c 'import milepost, psycopg'")
    newcomer.finish("! python -c 'import pyarrow'")


def has_handled(url: str, total: int) -> bool:
    with db.connect(url) as conn:
        row = conn.execute("select total, (select count(*) from milepost.jobs) from revenue")
        return row.fetchone() == (total, 0)


def not_installed() -> set[str]:
    """What can be imported here, and could not be with `milepost[embedded]` alone."""
    wanted = closure("milepost", "embedded")
    return {
        package
        for package, owners in packages_distributions().items()
        if not {normal(owner) for owner in owners} & wanted
    }


def closure(name: str, extra: str = "") -> set[str]:
    found, left = {normal(name)}, [(name, extra)]
    while left:
        name, extra = left.pop()
        for text in requires(name) or []:
            needed = Requirement(text)
            if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
                continue
            left += [(needed.name, each) for each in needed.extras]
            if normal(needed.name) not in found:
                found.add(normal(needed.name))
                left.append((needed.name, ""))
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
