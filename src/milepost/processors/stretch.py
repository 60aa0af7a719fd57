"""A stretch of a processor's life: what is opened for it is closed with it, whatever ends it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


@dataclass(slots=True)
class Stretch(ABC):
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    def open(self) -> None:
        """Connect and find out where to begin; then close it with `with`."""
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @abstractmethod
    def _open(self) -> None: ...
