"""The long tests: `make soak`, or some of its parts: `make soak SOAK="chaos demo"`.

Each part is a run of pytest. What its tests note (how many messages, kills ...) is added up to one
line. A part that fails does not keep the others from running.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
TORTURE_SECONDS = "120"
NAMES = ("messages", "kills", "lost", "doubled")
# Versions beside the one that every other part runs on. The wheel carries 16.
OTHER_VERSIONS = {
    "postgres15": "/usr/lib/postgresql/15/bin",
    "postgres16": "16",
    "postgres17": "/usr/lib/postgresql/17/bin",
}


@dataclass(frozen=True, slots=True)
class Part:
    arguments: tuple[str, ...]  # of pytest
    variables: Mapping[str, str] = field(default_factory=dict)
    workers: str = "0"  # a torture has the machine to itself

    def missing(self) -> str | None:
        """What this machine lacks to run it."""
        programs = self.variables.get("MILEPOST_TEST_POSTGRES", "")
        if programs.startswith("/") and not Path(programs, "postgres").is_file():
            return f"no PostgreSQL in {programs}"
        return None


PARTS: dict[str, Part] = {
    "log": Part(("tests/chaos/log",)),
    "archive": Part(("tests/chaos/archive",)),
    "processors": Part(("tests/chaos/processors",)),
    "segments": Part(("tests/chaos/segments",)),
    "parking": Part(("tests/chaos/parking",)),
    "queue": Part(("tests/chaos/queue",)),
    "pipelines": Part(("tests/chaos/pipelines/test_torture.py",)),
    "states": Part(
        (
            "tests/chaos/pipelines/test_state_torture.py",
            "tests/chaos/pipelines/test_rebuild_torture.py",
        )
    ),
    "spark_writer": Part(("tests/chaos/spark_writer",)),
    "models": Part(
        (
            "tests/integration/queue/test_model.py",
            "tests/integration/log/test_interleavings.py",
            "tests/integration/log/history/test_model.py",
        ),
        {"MILEPOST_MODEL_EXAMPLES": "1000"},
    ),
    "plans": Part(("tests/sql",), {"MILEPOST_PLAN_ROWS": "1000000"}),
    "cluster": Part(("tests/pipeline/cluster",)),
    # What starts a Spark of its own; much of that is waiting.
    "drivers": Part(
        ("tests/pipeline", "--ignore=tests/pipeline/cluster", "-m", "soak"), workers="2"
    ),
    "demo": Part(("tests/integration", "-m", "soak"), workers="2"),
} | {
    name: Part(("tests/integration", "tests/sql"), {"MILEPOST_TEST_POSTGRES": version}, "auto")
    for name, version in OTHER_VERSIONS.items()
}
GROUPS = {
    "chaos": (
        "log",
        "archive",
        "processors",
        "segments",
        "parking",
        "queue",
        "pipelines",
        "states",
        "spark_writer",
    ),
    "postgres": tuple(OTHER_VERSIONS),
    "all": tuple(PARTS),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """What a test notes for its part's line."""

    record: Callable[[str, object], None]

    def __call__(self, **counts: int) -> None:
        if unknown := counts.keys() - set(NAMES):
            raise ValueError(f"There is no column for {', '.join(unknown)}.")
        for name, count in counts.items():
            self.record(name, count)

    def of(self, result: Any) -> None:
        """Of a torture that compared effects with the log."""
        outcome = result.outcome
        self(
            messages=outcome.messages,
            kills=result.kills,
            lost=outcome.lost,
            doubled=outcome.doubled,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    seconds: float
    state: str
    counts: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        figures = "  ".join(f"{name} {self.counts.get(name, 0):>9,}" for name in NAMES)
        return f"{self.name:<12} {figures}  seconds {self.seconds:>6,.0f}  {self.state}"


def selected(words: Iterable[str]) -> list[str]:
    """The parts that the words name, in the order of PARTS."""
    named: set[str] = set()
    for word in words:
        if word not in PARTS and word not in GROUPS:
            known = ", ".join([*GROUPS, *PARTS])
            raise SystemExit(f"There is no part {word!r} of the soak. There are: {known}.")
        named.update(GROUPS.get(word, (word,)))
    return [name for name in PARTS if name in named]


def run(name: str) -> Outcome:
    part, started = PARTS[name], time.monotonic()
    if missing := part.missing():
        return Outcome(name, 0, f"skipped: {missing}")
    variables = {"MILEPOST_TORTURE_SECONDS": TORTURE_SECONDS, **os.environ, **part.variables}
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "results.xml")
        # The newer family of results has no place for what a test notes.
        results = [f"--junitxml={file}", "-o", "junit_family=xunit1"]
        options = ["--soak", "--quiet", *results, f"--numprocesses={part.workers}"]
        command = [sys.executable, "-m", "pytest", *options, *part.arguments]
        code = subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
        counts, state = read_results(file) if file.exists() else ({}, "no results")
    state = state if code == 0 else f"FAILED ({state})"
    return Outcome(name, time.monotonic() - started, state, counts)


def read_results(file: Path) -> tuple[dict[str, int], str]:
    """What the tests noted, added up; and how they ended."""
    tree = ElementTree.parse(file).getroot()  # noqa: S314 - written by pytest just now
    counts: Counter[str] = Counter()
    for each in tree.iter("property"):
        if each.get("name") in NAMES:
            counts[str(each.get("name"))] += int(str(each.get("value")))
    suite = next(tree.iter("testsuite")).attrib
    failed = int(suite["failures"]) + int(suite["errors"])
    passed = int(suite["tests"]) - failed - int(suite["skipped"])
    return dict(counts), f"{passed} passed, {failed} failed, {suite['skipped']} skipped"


def main(words: Sequence[str]) -> int:
    outcomes = []
    for name in selected(words or ["all"]):
        print(f"soak: {name}", flush=True)  # noqa: T201
        outcomes.append(run(name))
        print(f"soak: {outcomes[-1]}", flush=True)  # noqa: T201
    print("", *outcomes, sep="\n", flush=True)  # noqa: T201
    return any(outcome.state.startswith("FAILED") for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
