"""Everything Spark: the source, the sinks, pipelines and their rebuild.

The only room that imports pyspark, and only when one of the names below is asked for: without
the extra, everything else of Milepost works.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from milepost import db
from milepost.errors import InvalidOption, SparkNotInstalled

if TYPE_CHECKING:
    from milepost.pipeline.session import spark_session
    from milepost.pipeline.source import MilepostSource

__all__ = ["MilepostSource", "refuse_pooled", "require_spark", "spark_session"]

_NEEDED = ("pyspark", "pyarrow", "adbc_driver_postgresql")
_PLACES = {"MilepostSource": "source", "spark_session": "session"}


def require_spark() -> None:
    """Refuse, in words of what to install, where the extra is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise SparkNotInstalled(missing)


def refuse_pooled(url: str) -> None:
    """Readers and the driver keep settings in their sessions."""
    if db.leads_to_pgbouncer(url):
        raise InvalidOption(
            "url",
            "says pgbouncer=true, but Spark needs sessions of its own: connect to the server "
            "itself, or through a pooler in session mode.",
        )


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_spark()
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
