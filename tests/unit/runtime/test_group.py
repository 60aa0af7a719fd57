"""Which members of a group are gone, and what is not run."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event
from typing import Any, ClassVar

import pytest

from milepost import Milepost
from milepost.runtime import Group, Until
from milepost.sql import Activity


@dataclass(slots=True)
class Member:
    name: str
    error: Exception | None = None
    activity: ClassVar[Activity] = "work"
    own_connections: ClassVar[int] = 0

    def run(self, until: Until, stop: Event) -> None:
        if self.error is not None:
            raise self.error

    def caught_up(self) -> bool:
        return True


class Torn(Member):
    """Nobody can even say that it has failed."""

    def run(self, until: Until, stop: Event) -> None:
        del self.name
        raise ValueError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_nothing_has_ended_is_gone() -> None:
    group = Group([Member("ended"), Torn("torn")])
    group.run("stopped")
    assert (group.gone(), group.failures()) == (["torn"], {})


def test_a_member_that_has_failed_is_not_gone() -> None:
    error = ValueError("broken")
    group = Group([Member("broken", error)], is_fail_fast=True)
    with pytest.raises(ValueError, match="broken"):
        group.run("stopped")
    assert (group.gone(), group.failures()) == ([], {"broken": error})


@pytest.mark.parametrize("until", ["caughtup", "caught-up", "", None])
def test_an_end_that_does_not_exist_is_refused(until: Any) -> None:
    mp = Milepost("postgresql://nobody@localhost:1/nowhere")
    processor, worker = mp.processor("p")(lambda *_: None), mp.worker("w")(lambda _: None)
    for run in (mp.run, mp.run_archiver, processor.run, worker.run):
        with pytest.raises(ValueError, match="expected one of 'stopped', 'caught_up', 'drained'"):
            run(until=until)


def test_a_run_of_nothing_is_refused() -> None:
    mp = Milepost("postgresql://nobody@localhost:1/nowhere")
    with pytest.raises(ValueError, match=r"nothing to run: .* is registered\. Add"):
        mp.run()
    mp.processor("p")(lambda *_: None)
    with pytest.raises(ValueError, match="is registered or named"):
        mp.run(only=[])
