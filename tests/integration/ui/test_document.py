"""The programs of docs/dashboard.md run as they are written there, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ui.operating import TestClient

DOCUMENT = Path(__file__).parents[3] / "docs" / "dashboard.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
IMAGE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")
LARGEST_BYTES = 80_000
NAMED = {"x-forwarded-user": "ann"}


def test_the_dashboard_is_mounted_as_the_document_says(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_URL", url)
    names: dict[str, Any] = {}
    starlette, fastapi, django, close = BLOCK.findall(DOCUMENT.read_text())
    for program, app, prefix in (
        (starlette, "app", "/ops/milepost"),
        (fastapi, "api", "/ops/milepost"),
        (django, "application", "/milepost"),
    ):
        exec(program, names)  # noqa: S102 - our own document
        client = TestClient(names[app], base_url="http://shop.example")
        assert client.get(f"{prefix}/").status_code == 403, app
        page = client.get(f"{prefix}/log", headers=NAMED)
        assert page.status_code == 200, app
        assert f'href="{prefix}/static/style.css"' in page.text
        assert client.get(f"{prefix}/static/style.css").status_code == 200
    exec(close, names)  # noqa: S102 - our own document


def test_the_pictures_are_there_and_small() -> None:
    files = [DOCUMENT.parent / path for path in IMAGE.findall(DOCUMENT.read_text())]
    assert files
    assert {file.name: file.stat().st_size for file in files if not is_small(file)} == {}


def is_small(file: Path) -> bool:
    return 1000 < file.stat().st_size <= LARGEST_BYTES
