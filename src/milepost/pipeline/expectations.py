"""What a pipeline expects of each row of its output, and what happens to rows that are different.
Plain values, without Spark or SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

OnViolation: TypeAlias = Literal["fail", "drop", "set_aside"]
MOST = 62  # each is a bit of a bigint
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Expectations:
    """Conditions by name: expressions of Spark SQL over the columns of the output. A row violates a
    condition that is not true for it, so null is a violation, too."""

    conditions: Mapping[str, str]
    on_violation: OnViolation = "fail"

    def __post_init__(self) -> None:
        if self.on_violation not in get_args(OnViolation):
            expected = ", ".join(get_args(OnViolation))
            raise ValueError(f"on_violation is {self.on_violation!r}: expected one of {expected}.")
        if not isinstance(self.conditions, Mapping) or not 0 < len(self.conditions) <= MOST:
            raise ValueError(
                f"expect is {self.conditions!r}: expected 1 to {MOST} conditions by name, as in "
                '{"total is positive": "total > 0"}.'
            )
        for name, condition in self.conditions.items():
            _check(name, condition)

    @property
    def names(self) -> list[str]:
        return list(self.conditions)


def _check(name: object, condition: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise ValueError(
            f"The name of an expectation has 1 to {LONGEST_NAME} characters: {name!r}."
        )
    if not isinstance(condition, str) or not condition.strip():
        raise ValueError(
            f"The expectation {name!r} is {condition!r}: expected a condition in SQL, as in "
            "'total > 0'."
        )
