"""How a command fails: one line on stderr, and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import typer
from typer.core import TyperGroup

from milepost.errors import MilepostError, NotPermitted
from milepost.runtime import naming_loss

# The activity that a command needs, unless the failed statement names one.
_ACTIVITIES = {
    "append": "append", "read": "read", "status": "metrics", "doctor": "metrics",
    "metrics": "metrics",
}  # fmt: skip
INTERRUPTED = 130  # 128 + SIGINT, as shells count


class FailureGroup(TyperGroup):
    """Runs a command and reports its error; with `--debug`, with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with naming_loss():
                return super().invoke(ctx)
        except (MilepostError, psycopg.Error) as error:
            if isinstance(error, NotPermitted) and error.activity is None:
                error.activity = _ACTIVITIES.get(ctx.invoked_subcommand, "operate")
            if ctx.params.get("debug"):
                traceback.print_exception(error)
            else:
                typer.echo(f"error: {in_one_line(error)}", err=True)
            raise typer.Exit(exit_code(error)) from error
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(INTERRUPTED) from interrupt
        except BrokenPipeError:
            _forget_stdout()
            return None


def exit_code(error: Exception) -> int:
    return error.exit_code if isinstance(error, MilepostError) else 1


@contextmanager
def stacks_printed(is_wanted: bool) -> Iterator[None]:
    """With the traceback of the error that ends the command, and of its causes: what Spark raised,
    with the stacks of its JVM."""
    try:
        yield
    except (MilepostError, psycopg.Error) as error:
        if is_wanted:
            traceback.print_exception(error)
        raise


def in_one_line(error: Exception) -> str:
    """The server sends message, detail and hint as separate fields; libpq sends lines."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        parts = [error.diag.message_primary, error.diag.message_detail, error.diag.message_hint]
        return " ".join(". ".join(part.rstrip(".") for part in parts if part).split())
    lines = (" ".join(line.split()) for line in str(error).splitlines())
    return "; ".join(line for line in lines if line) or type(error).__name__


def _forget_stdout() -> None:
    """The reader of our output has closed it (`milepost read | head -1`). What is still buffered
    must not fail again when the interpreter flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
