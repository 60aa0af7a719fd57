"""A small site with the settings of the real one: theme, extensions and what is a warning."""

from __future__ import annotations

from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from tools.site import hooks
from tools.site.links import ROOT


def built(place: Path, **pages: str) -> Path:
    """The directory of the site; `Abort` if something is wrong with it."""
    documents = place / "docs"
    documents.mkdir()
    for name, text in pages.items():
        (documents / f"{name}.md").write_text(text)
    config = load_config(
        str(ROOT / "mkdocs.yml"),
        docs_dir=str(documents),
        site_dir=str(place / "site"),
        nav=[f"{name}.md" for name in pages],
        hooks=[],
        plugins=["search"],
        not_in_nav="",
    )
    config.plugins.events["post_page"].append(hooks.on_post_page)
    build(config)
    return place / "site"
