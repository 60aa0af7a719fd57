"""No example without a test of its own that runs it: test_NAME.py for NAME.py or NAME/."""

from __future__ import annotations

from pathlib import Path

from tests.zygote import ROOT

HERE = Path(__file__).parent


def test_every_example_has_a_test_that_runs_it() -> None:
    untested = [name for name in examples() if not runs(HERE / f"test_{name}.py", name)]
    assert untested == []


def test_there_are_examples() -> None:
    assert {"balances", "emails", "flights", "shop"} <= set(examples())


def examples() -> list[str]:
    entries = [e for e in (ROOT / "examples").iterdir() if not e.name.startswith(("__", "."))]
    return sorted(entry.stem for entry in entries if entry.is_dir() or entry.suffix == ".py")


def runs(test: Path, name: str) -> bool:
    """Whether it enters a command that names the example."""
    if not test.is_file():
        return False
    text = test.read_text()
    return "def test_" in text and any(
        command in text for command in (f"python examples/{name}.py", f"-m examples.{name}")
    )
