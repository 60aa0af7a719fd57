"""How Spark is configured: by `[tool.milepost.spark]` of pyproject.toml, then by the environment,
then by flags. The later wins. Pure, except for reading the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from milepost.errors import InvalidSparkSetting

VARIABLE = "MILEPOST_SPARK_CONF"  # key=value;key=value
MASTER_VARIABLE = "MILEPOST_SPARK_MASTER"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_WITH_STACKS = "-Dmilepost.failures=error"  # see log4j2.properties
_PREFIX = "spark."


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Spark runs (None: as configured, by default local[*]) and how."""

    master: str | None = None
    config: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets

    def with_stacks(self) -> SparkSettings:
        """Spark's own log shows why tasks and jobs failed, with the stacks of the JVM."""
        options = f"{_WITH_STACKS} {self.config.get(JAVA_OPTIONS, '')}".strip()
        return replace(self, config={**self.config, JAVA_OPTIONS: options})


def spark_settings(
    project: Mapping[str, Any],
    environ: Mapping[str, str],
    master: str | None = None,
    pairs: Sequence[str] = (),
) -> SparkSettings:
    """All settings together. `project` is the table of pyproject.toml."""
    config = dict(_flattened(project))
    chosen = master or environ.get(MASTER_VARIABLE) or config.pop("spark.master", None)
    config.pop("spark.master", None)
    listed = environ.get(VARIABLE, "")
    config |= _pairs([pair for pair in listed.split(";") if pair.strip()], VARIABLE)
    config |= _pairs(pairs, "--spark-conf")
    return SparkSettings(chosen or config.get("spark.master"), config)


def project_table(directory: Path) -> Mapping[str, Any]:
    """`[tool.milepost.spark]` of the directory's pyproject.toml. Empty if there is none."""
    file = directory / "pyproject.toml"
    if not file.exists():
        return {}
    with file.open("rb") as stream:
        document = tomllib.load(stream)
    table = document.get("tool", {}).get("milepost", {}).get("spark", {})
    if not isinstance(table, dict):
        raise InvalidSparkSetting(f"[tool.milepost.spark] of {file.name} is not a table.")
    return table


def _flattened(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """TOML reads a dotted key as nested tables. `executor.memory` means `spark.executor.memory`."""
    for name, value in table.items():
        key = f"{path}{name}"
        if isinstance(value, dict):
            yield from _flattened(value, f"{key}.")
        else:
            yield _prefixed(key), str(value).lower() if isinstance(value, bool) else str(value)


def _pairs(pairs: Sequence[str], origin: str) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, equals, value = pair.strip().partition("=")
        if not equals or not key.strip():
            # Only the part before the equals sign is shown: what follows may be a secret.
            raise InvalidSparkSetting(f"{origin} contains {key!r}: expected key=value.")
        found[_prefixed(key.strip())] = value.strip()
    return found


def _prefixed(key: str) -> str:
    return key if key.startswith(_PREFIX) else f"{_PREFIX}{key}"
