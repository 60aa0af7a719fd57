"""One session: connected, with a known state, until something ends it.

A session knows nothing of reconnecting. The next session begins with what the database says, so
that nothing remembered in memory can be wrong: not even whether a commit whose answer was lost has
happened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from milepost.runtime.lost_server import ServerLost, is_server_lost

if TYPE_CHECKING:
    from milepost.runtime.status import State

# When a run ends by itself. The last two mean the same.
Until: TypeAlias = Literal["stopped", "caught_up", "drained"]


def refuse_unknown_end(until: str) -> None:
    """One that is misspelt would be taken for an end of the run."""
    if until not in get_args(Until):
        known = ", ".join(map(repr, get_args(Until)))
        raise ValueError(f"until is {until!r}: expected one of {known}.")


class Stopping(Exception):
    """A stop was requested. Nothing of what was in flight is committed."""


class SessionOver(Exception):
    """The session ended, and the next one may begin after `wait`."""

    def __init__(self, reason: str, wait: Callable[[Until], None] = lambda _until: None) -> None:
        self.wait = wait
        super().__init__(reason)


@dataclass(slots=True)
class Session(ABC):
    """What is opened for it is closed with it, whatever ends it."""

    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    def open(self) -> None:
        """Connect and load the state. Then use it as a context manager, which closes it."""
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def run(self, until: Until) -> None:
        """Work until a stop is requested or `until` holds."""

    @abstractmethod
    def report_end(self, state: State, error: str | None = None) -> None:
        """Report the last state."""

    def is_lost(self) -> bool:
        """Whether a connection is gone, whatever was raised because of it."""
        return False

    def meaning_of(self, error: Exception) -> Exception:
        """What an error that ended the session means: ServerLost, SessionOver, or itself. Asked
        before the session is closed: afterwards all connections are."""
        if self.is_lost() or is_server_lost(error):
            return ServerLost(str(error))
        return error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()
