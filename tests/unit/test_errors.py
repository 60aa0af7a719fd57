"""Errors that are declared by their facts and a template."""

from __future__ import annotations

import pickle
from dataclasses import fields
from string import Formatter

import pytest

from milepost import errors
from milepost.errors import (
    CannotDecode,
    HandlerFailed,
    NotMigrated,
    PipelineError,
    StateLost,
    UnknownSegment,
    WithFacts,
)

DECLARED = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, WithFacts) and hasattr(kind, "template")
]


@pytest.mark.parametrize("kind", DECLARED)
def test_every_name_in_a_template_is_a_fact_or_a_property(kind: type[WithFacts]) -> None:
    known = {fact.name for fact in fields(kind)} | set(dir(kind))  # type: ignore[arg-type]
    names = {name for _, name, _, _ in Formatter().parse(kind.subject + kind.template) if name}
    assert names <= known


def test_the_facts_are_attributes_and_part_of_the_text() -> None:
    error = NotMigrated("shop", 3, 11)
    assert (error.schema, error.found, error.needed) == ("shop", 3, 11)
    assert str(error) == (
        "The schema 'shop' is at migration 3; this version of Milepost needs migration 11. "
        "Run: milepost migrate --schema shop"
    )


def test_what_is_empty_has_words_of_its_own() -> None:
    assert str(UnknownSegment("p", 5, [0, 1])).endswith("There are: 0, 1.")
    assert str(UnknownSegment("p", 5, [])).endswith("There are: none: it is not segmented.")


def test_braces_in_a_fact_are_only_text() -> None:
    assert "{processor} {0}" in str(HandlerFailed("p", "0:1", 3, "{processor} {0}"))


def test_a_family_names_its_subject() -> None:
    error = StateLost("revenue", "/tmp/x", "0:7", "is empty", has_table=True)  # noqa: S108
    assert isinstance(error, PipelineError)
    assert str(error).startswith("Pipeline 'revenue': its checkpoint is 0:7, but")


def test_an_error_survives_pickling() -> None:
    error = CannotDecode("p", "0:1", "too deep")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(copy), copy.attempts) == (str(error), 1)
