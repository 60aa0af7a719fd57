from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.roles import Roles, roles_in


@pytest.fixture
def roles(url: str) -> Iterator[Roles]:
    with roles_in(url) as made:
        yield made
