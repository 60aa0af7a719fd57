"""A named background thread that repeats something, fails loudly and can be closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread

from milepost.runtime.pulse import Pulses, of_this_run


@dataclass(slots=True)
class Duty:
    """`step` returns the seconds until it is called again, or None when the duty is over. It must
    return None soon after `closing` is set. What it raises ends the duty and goes to `on_failure`.
    """

    name: str
    step: Callable[[], float | None]
    on_failure: Callable[[BaseException], None]
    closing: Event = field(default_factory=Event, init=False)
    _thread: Thread = field(init=False)
    _pulses: Pulses = field(init=False)

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        self._pulses = of_this_run()
        self._thread.start()

    def close(self, seconds: float | None = None) -> None:
        """Returns when the duty is over, or after so many seconds."""
        self.closing.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            with self._pulses.loop(self.name) as pulse:
                while (seconds := self.step()) is not None:
                    pulse.turned(seconds)
                    if seconds:
                        self.closing.wait(seconds)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that owns the duty
            self.on_failure(error)
