"""What a document says is entered: its fenced blocks and, for the tests alone, its hidden ones.

A hidden block is a comment, which readers do not see: `<!-- run: python`, lines, `-->`. A block
that no test can run has a comment with the reason before it: `<!-- not run: needs a cluster -->`.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

RUN = ("python", "sh", "sql", "interrupt")
# What is only shown: output, settings, drawings.
SHOWN = ("text", "toml", "yaml", "json", "ini", "dockerfile", "mermaid", "html")

BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n\n?)?"
    r"(?:^(?P<indent> *)(?P<fence>`{3,})(?P<shown>[\w-]*)[^\n]*\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence)$"
    r"|^<!-- run: (?P<hidden>\w+)\n(?P<body>.*?)^-->$)",
    re.DOTALL | re.MULTILINE,
)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
SPARK = re.compile(r"^<!-- runs with: spark -->$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    document: Path
    line: int  # of the document: the one of its first line of text
    heading: str | None  # the section that it is in
    language: str
    text: str
    not_run: str | None  # the reason

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks_of(document: Path) -> list[Block]:
    """In the order of the document, also those that are only shown."""
    text = document.read_text()
    return [_block(document, text, found) for found in BLOCK.finditer(text)]


def to_run(document: Path) -> list[Block]:
    return [b for b in blocks_of(document) if b.language in RUN and b.not_run is None]


def needs_spark(document: Path) -> bool:
    """Its Python gets `spark`, and its commands share that session."""
    return SPARK.search(document.read_text()) is not None


def _block(document: Path, text: str, found: re.Match[str]) -> Block:
    name = "text" if found["hidden"] is None else "body"
    headings = HEADING.findall(text, 0, found.start())
    return Block(
        document=document,
        line=text.count("\n", 0, found.start(name)) + 1,
        heading=headings[-1] if headings else None,
        language=found["shown"] if found["hidden"] is None else found["hidden"],
        text=textwrap.dedent(found[name]),
        not_run=found["reason"],
    )
