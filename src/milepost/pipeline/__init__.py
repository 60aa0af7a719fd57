"""Everything that uses Spark: the source, the sinks, pipelines and their rebuild.

Only this room imports pyspark, and only when it is needed. Without the extra, everything else of
Milepost works.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from milepost import db
from milepost.errors import InvalidOption, SparkNotInstalled

if TYPE_CHECKING:
    from milepost.pipeline.data_source import MilepostSource
    from milepost.pipeline.frames import history
    from milepost.pipeline.start_spark import spark_session

__all__ = ["MilepostSource", "history", "refuse_pooled", "require_spark", "spark_session"]

_NEEDED = ("pyspark", "pyarrow", "adbc_driver_postgresql")
_PLACES = {"MilepostSource": "data_source", "history": "frames", "spark_session": "start_spark"}


def require_spark() -> None:
    """Raises an error that says what to install, if the extra is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise SparkNotInstalled(missing)


def refuse_pooled(url: str) -> None:
    """Readers and the driver keep settings in their sessions."""
    if db.leads_to_pgbouncer(url):
        raise InvalidOption(
            "url",
            "says pgbouncer=true, but Spark needs its own sessions: connect to the server itself, "
            "or through a pooler in session mode.",
        )


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_spark()
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
