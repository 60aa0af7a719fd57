"""What a long-running command writes to stderr: text lines or JSON lines."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import psycopg
import typer

from milepost.cli.failures import exit_code, in_one_line
from milepost.errors import MilepostError

LogFormat: TypeAlias = Literal["text", "json"]
_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
# A placeholder in a message, with its name if it has one: `job=%s`.
_PLACEHOLDER = re.compile(r"(?:(\w+)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
log = logging.getLogger("milepost")
stacks = logging.getLogger("milepost.stacks")  # of errors that are told in a line


class JsonFormatter(logging.Formatter):
    """Every record is one line, whatever the message contains; a traceback is a field."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            **fields(record),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """The values that have a name in the message (`job=%s`), unformatted."""
    if not isinstance(record.msg, str) or not isinstance(record.args, tuple):
        return {}
    found = [m for m in _PLACEHOLDER.finditer(record.msg) if not m.group().endswith("%%")]
    if len(found) != len(record.args):
        return {}
    pairs = zip((match.group(1) for match in found), record.args, strict=True)
    return {name: value for name, value in pairs if name is not None}


def set_up_logging(level: str, log_format: LogFormat, *, has_stacks: bool = False) -> None:
    """`has_stacks`: also of errors that are told in a line. Level debug has them, too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(handlers=[handler], level=level.upper())
    if has_stacks:
        stacks.setLevel(logging.DEBUG)
    if log_format == "json":
        logging.captureWarnings(True)


@contextmanager
def failures_logged() -> Iterator[None]:
    """Write the error that ends the command to the log too: some users read only the log."""
    try:
        yield
    except (MilepostError, psycopg.Error) as error:
        # With its traceback only if that is wanted, as on a terminal.
        trace = error if stacks.isEnabledFor(logging.DEBUG) else None
        log.log(logging.ERROR, "%s", in_one_line(error), exc_info=trace)
        raise typer.Exit(exit_code(error)) from error
    except Exception as error:
        log.exception("%s", type(error).__name__)
        raise typer.Exit(1) from error
