"""What others import from the room is found, whatever was imported before."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

import milepost.pipeline


@pytest.mark.parametrize("name", milepost.pipeline.__all__)
def test_a_name_of_the_door_is_no_module(name: str) -> None:
    """A module that is imported becomes an attribute of its package, in place of the name."""
    assert name not in {module.name for module in iter_modules(milepost.pipeline.__path__)}
    assert callable(getattr(import_module("milepost.pipeline"), name))
