from __future__ import annotations

import pytest

from milepost.errors import ArchiveFileBroken
from milepost.log.history import Location


@pytest.mark.parametrize("address", ["/data/archive", "s3://bucket/prefix?region=eu-west-1"])
@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "a/b.parquet"])
def test_a_name_in_the_manifest_that_leads_out_of_the_folder_is_refused(
    address: str, name: str
) -> None:
    with pytest.raises(ArchiveFileBroken, match="leads out of the folder"):
        Location(address).path(name)


def test_the_folder_itself_and_its_files_have_a_path() -> None:
    assert Location("/data/archive/").path("") == "/data/archive/"
    assert Location("/data/archive").path("1..2.parquet") == "/data/archive/1..2.parquet"
