"""What makes the build of the site fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from mkdocs.exceptions import Abort

from tests.unit.site.building import built

OTHER = "# Other\n\n## A part\n"


def test_links_that_lead_somewhere_pass(tmp_path: Path) -> None:
    site = built(tmp_path, index="[there](other.md#a-part)", other=OTHER)
    assert 'href="other.html#a-part"' in (site / "index.html").read_text()


@pytest.mark.parametrize("link", ["missing.md", "other.md#no-part", "../missing.py", "#no-part"])
def test_a_broken_link_fails(tmp_path: Path, link: str) -> None:
    with pytest.raises(Abort):
        built(tmp_path, index=f"[there]({link})", other=OTHER)


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://example.com/x.js"></script>',
        "![a picture](https://example.com/x.png)",
        '<link rel="stylesheet" href="//example.com/x.css">',
    ],
)
def test_a_request_to_another_host_fails(tmp_path: Path, text: str) -> None:
    with pytest.raises(Abort):
        built(tmp_path, index=text)


def test_a_link_to_another_host_is_no_request(tmp_path: Path) -> None:
    built(tmp_path, index="[there](https://example.com)")


def test_a_drawing_is_shown_as_its_text(tmp_path: Path) -> None:
    """Material would load the script that draws it from another host."""
    site = built(tmp_path, index="```mermaid\nflowchart TD\n```\n")
    assert 'class="mermaid"' not in (site / "index.html").read_text()
