"""The programs of the documents about tests are run as they are written there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.integration.testing.project import Project
from tests.server import TestServer

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)")


def tell(document: Path, project: Project) -> list[str]:
    """Write its programs into files, and run its commands; what each printed."""
    said = []
    for language, text in BLOCK.findall(document.read_text()):
        if language == "python":
            found = FILE.match(text)
            assert found is not None, f"into which file? {text}"
            (project.place / found[1]).write_text(text)
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "pytest"
            said.append(project.run(*arguments))
            assert set(said[-1].counts) == {"passed"}, said[-1].output
    return [each.output for each in said]


@pytest.mark.parametrize("name", ["testing.md", "crash-everywhere.md"])
def test_a_document_is_true(name: str, tmp_path: Path, server: TestServer) -> None:
    assert tell(ROOT / "docs" / name, Project(tmp_path, server.base_url))


def test_the_tests_of_the_readme_pass(tmp_path: Path, server: TestServer) -> None:
    project = Project(tmp_path, server.base_url)
    for language, text in BLOCK.findall((ROOT / "README.md").read_text()):
        if language == "python" and text.startswith(("# app.py\n", "# test_app.py\n")):
            (tmp_path / text.split()[1]).write_text(text)
        elif language == "sh" and text.startswith("pytest"):
            found = project.run(*shlex.split(text, comments=True)[1:])
            assert found.counts == {"passed": 2}, found.output
            return
    pytest.fail("the README has no tests")
