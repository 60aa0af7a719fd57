"""What browsers load is small, ours, and without anything inline."""

from __future__ import annotations

import re
from pathlib import Path

import milepost.ui

ROOM = Path(milepost.ui.__file__).parent
TEMPLATES = sorted((ROOM / "templates").rglob("*.html"))


def test_all_assets_together_are_small() -> None:
    assert sum(file.stat().st_size for file in (ROOM / "static").iterdir()) <= 60 * 1024


def test_the_script_is_short() -> None:
    assert len((ROOM / "static" / "live.js").read_text().splitlines()) <= 150


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    assert TEMPLATES
    for file in TEMPLATES:
        text = file.read_text()
        assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:", text), file
        assert not re.search(r"<script(?![^>]*src=)", text), file
        assert not re.search(r"""(src|action)=["']https?:""", text), file
    for file in (ROOM / "static").iterdir():
        assert not re.search(r"@import|url\(", file.read_text()), file


def test_every_part_of_a_template_is_escaped() -> None:
    """The only exception is the HTML of parts, which was rendered by the same templates."""
    uses = [file.name for file in TEMPLATES if re.search(r"\|\s*safe", file.read_text())]
    assert uses == ["layout.html"]
