"""Rebuild several pipelines, one after the other. One that fails ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.errors import CannotRebuild, NothingToRebuild, RebuildsStopped, message_of
from milepost.pipeline import require_spark

if TYPE_CHECKING:
    from milepost.pipeline.pipeline import Pipeline
    from milepost.pipeline.rebuild import Rebuilt


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A pipeline that cannot be rebuilt. What it feeds can."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Order:
    pipelines: tuple[Pipeline, ...]
    passed_over: tuple[PassedOver, ...]


def rebuild_order(name: str, downstream: Iterable[Pipeline]) -> Order:
    """Which of the pipelines downstream of a name are rebuilt. They are in order."""
    require_spark()
    from milepost.pipeline.rebuild import refuse

    pipelines, passed_over = [], []
    for pipeline in downstream:
        try:
            refuse(pipeline.definition.options)
            pipelines.append(pipeline)
        except CannotRebuild as refused:
            passed_over.append(PassedOver(pipeline.name, refused.reason))
    if not pipelines:
        raise NothingToRebuild(name, [f"{each.name}: {each.reason}" for each in passed_over])
    return Order(tuple(pipelines), tuple(passed_over))


def rebuild_in_order(order: Order, rebuild: Callable[[Pipeline], Rebuilt]) -> list[Rebuilt]:
    names = [each.name for each in order.pipelines]
    done: list[Rebuilt] = []
    for number, pipeline in enumerate(order.pipelines):
        try:
            done.append(rebuild(pipeline))
        except Exception as error:
            raise RebuildsStopped(
                pipeline.name, message_of(error), names[:number], names[number + 1 :]
            ) from error
    return done
