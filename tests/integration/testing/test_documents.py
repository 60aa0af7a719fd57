"""The tests of the README pass as they are written there. tests/documents runs the documents."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.integration.testing.project import Project
from tests.server import TestServer

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


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
