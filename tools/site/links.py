"""Links between files of the project become links between pages of the site.

Documents link to each other as files, so that they can be read where the sources are. A file
outside of docs/ that a document links to, such as an example, is shown on a page of its own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECISIONS = "decisions/index.md"
# Documents that are not below docs/, by the name of their page.
PAGES = {
    "index.md": ROOT / "README.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "changelog.md": ROOT / "CHANGELOG.md",
    "benchmarks.md": ROOT / "benchmarks" / "README.md",
    **{f"notes/{note.name}": note for note in sorted((ROOT / "benchmarks/notes").glob("*.md"))},
}
LINK = re.compile(r"\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".sql": "sql", ".yaml": "yaml", ".json": "json", ".toml": "toml"}


def rewritten(markdown: str, page: str) -> str:
    """With the links of that page."""
    source = _source_of(page)

    def link(found: re.Match[str]) -> str:
        target = _page_of(_target(source, found["path"]))
        if target is None:
            return found[0]  # MkDocs says what is wrong with it
        relative = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"]({relative}{found['anchor'] or ''})"

    return LINK.sub(link, markdown)


def shown_sources() -> dict[str, str]:
    """The pages of files and directories that documents link to."""
    targets = {target for document in documents() for target in _targets(document)}
    shown = {target: _page_of(target) for target in sorted(targets)}
    return {
        page: _shown(target)
        for target, page in shown.items()
        if page is not None and page.startswith("files/")
    } | {DECISIONS: _decisions()}


def documents() -> list[Path]:
    return [*PAGES.values(), *sorted((ROOT / "docs").rglob("*.md"))]


def _targets(document: Path) -> Iterator[Path]:
    for found in LINK.finditer(document.read_text()):
        yield _target(document, found["path"])


def _target(source: Path, path: str) -> Path:
    return Path(posixpath.normpath(source.parent / path))


def _source_of(page: str) -> Path:
    return PAGES.get(page, ROOT / "docs" / page)


def _page_of(target: Path) -> str | None:
    """None: there is no such file."""
    for page, source in PAGES.items():
        if source == target:
            return page
    if target == ROOT / "docs" / "decisions":
        return DECISIONS
    if target.is_relative_to(ROOT / "docs"):
        return target.relative_to(ROOT / "docs").as_posix()
    if target.exists() and target.is_relative_to(ROOT):
        return f"files/{target.relative_to(ROOT).as_posix()}.md"
    return None


def _shown(target: Path) -> str:
    files = [target] if target.is_file() else sorted(p for p in target.iterdir() if p.is_file())
    blocks = [f"## {file.name}\n\n{_block(file)}" for file in files]
    return "\n\n".join([f"# {target.relative_to(ROOT).as_posix()}", *blocks])


def _block(file: Path) -> str:
    try:
        text = file.read_text()
    except UnicodeDecodeError:
        return "This file is not text."
    return f"``````{LANGUAGES.get(file.suffix, 'text')}\n{text}\n``````"


def _decisions() -> str:
    """Their titles and their status."""
    rows = [
        f"- [{lines[0].removeprefix('# ')}]({path.name}): {_status(lines)}"
        for path in sorted((ROOT / "docs" / "decisions").glob("0*.md"))
        for lines in [path.read_text().splitlines()]
    ]
    return (
        "# Decisions\n\nWhat could have been decided otherwise, and why it was not.\n\n"
        + "\n".join(rows)
    )


def _status(lines: list[str]) -> str:
    return next(line for line in lines if line.startswith("Status: "))[8:].partition(".")[0]
