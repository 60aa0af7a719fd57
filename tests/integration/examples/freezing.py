"""examples/balances.py as a process that freezes itself, once, at a chosen moment.

Run as `python -m tests.integration.examples.freezing MOMENT [unfenced]`, where the example is run;
with `never` it does not freeze, and with `caught-up` it ends when all is handled. It goes on when
it is sent SIGCONT, and leaves the file `went-on` when the call that it was frozen in has ended.
Claims are short. `unfenced`: without the epoch in the names of the files.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from examples import balances

from milepost import FileStore, Milepost
from milepost.processors.self_checkpointing.file_store import FileName
from tests.integration.examples.moments import (
    BEFORE_HANDLING,
    BEFORE_SAVING,
    WENT_ON,
    WHILE_SAVING,
)

CLAIM_SECONDS = 1.0
SAVE_SECONDS = 0.05
# What is called at that moment; each only with deposits that are not saved yet.
CALLS: dict[str, tuple[Any, str]] = {
    BEFORE_HANDLING: (balances.Balances, "__call__"),
    BEFORE_SAVING: (FileStore, "save"),
    WHILE_SAVING: (Path, "replace"),
}


def application() -> Milepost:
    """With short times."""
    processor = balances.mp.processors["balances"]
    options = replace(
        processor.definition.options, claim_seconds=CLAIM_SECONDS, poll_seconds=SAVE_SECONDS
    )
    processor.definition = replace(processor.definition, options=options)
    balances.SAVE_SECONDS = SAVE_SECONDS
    return balances.mp


def freeze_once(moment: str) -> None:
    owner, name = CALLS[moment]
    real: Callable[..., Any] = getattr(owner, name)
    is_saving = has_frozen = False

    def save(store: FileStore, trigger: Any, entries: Any, position: Any) -> None:
        nonlocal is_saving
        is_saving = bool(entries)  # and not the replacing in a load
        real_save(store, trigger, entries, position)

    def freezing(*arguments: Any, **named: Any) -> Any:
        nonlocal has_frozen
        if has_frozen or (moment == WHILE_SAVING and not is_saving):
            return real(*arguments, **named)
        has_frozen = True
        # To this thread, which then stops here. One to the process may be delivered to another
        # thread, while this one goes on for a moment.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        try:
            return real(*arguments, **named)
        finally:
            Path(WENT_ON).touch()

    real_save = FileStore.save
    if moment == WHILE_SAVING:
        FileStore.save = save  # type: ignore[method-assign,assignment]
    setattr(owner, name, freezing)


def take_the_fence_out() -> None:
    """All owners write to the same file. Nor is there a lock: a frozen owner would hold it."""
    FileName.of = classmethod(  # type: ignore[method-assign,assignment]
        lambda cls, trigger: cls(0, trigger.segment.mask, trigger.segment.id)
    )
    FileStore._locked = lambda *_: nullcontext()  # type: ignore[method-assign,assignment]


def main(moment: str, *how: str) -> None:
    mp = application()
    if moment in CALLS:
        freeze_once(moment)
    if "unfenced" in how:
        take_the_fence_out()
    mp.run(until="caught_up" if moment == "caught-up" else "stopped")


if __name__ == "__main__":
    main(*sys.argv[1:])
