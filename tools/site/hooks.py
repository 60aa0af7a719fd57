"""What MkDocs calls while it builds the site (mkdocs.yml names this file).

Nothing generated is committed: the home page is the README, the reference comes from docstrings,
from the comments of the SQL files and from the commands themselves.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.site import command_reference, links, python_reference, sql_reference

log = logging.getLogger("mkdocs.hooks.milepost")  # a warning of it fails a strict build

# For the tests alone (tests/documents): readers of the site do not need them in its source.
MARKS = re.compile(r"^<!-- (?:run|not run|runs with): .*?-->\n\n?", re.DOTALL | re.MULTILINE)
REFERENCE = {
    "reference/python.md": python_reference.page,
    "reference/sql.md": sql_reference.page,
    "reference/command-line.md": command_reference.page,
}
# What a browser loads by itself; a link is not among it.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']((?:https?:)?//[^"']+)"""
    r"""|<link\b[^>]*\bhref=["']((?:https?:)?//[^"']+)"""
)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for problem in [*python_reference.problems(), *sql_reference.problems()]:
        log.warning(problem)
    for name, source in links.PAGES.items():
        files.append(File.generated(config, name, content=source.read_text()))
    for name, page in REFERENCE.items():
        files.append(File.generated(config, name, content=page()))
    for name, content in links.shown_sources().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    return links.rewritten(MARKS.sub("", markdown), page.file.src_uri)


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Whoever reads the documentation tells nobody else of it."""
    for found in LOADED.finditer(output):
        log.warning("%s loads %s from another host", page.file.src_uri, found[1] or found[2])
    return output
