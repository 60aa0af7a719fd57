"""Append orders, run the pipeline with `spark-pipelines`, append more, run it again, and check what
it has written to the log."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from milepost import Message, Milepost
from milepost.embedded.java import java_home, quiet_home

HERE = Path(__file__).parent
PROJECT = Path("sdp-project")
EACH_TIME = 100
LARGE = 90
# So that the next run knows the tables: the default catalog forgets them with the session. A static
# setting, which spark-pipeline.yml cannot make.
CATALOG = "spark.sql.catalogImplementation=hive"

mp = Milepost()


def main() -> None:
    mp.migrate()
    make_project()
    first = len(list(mp.read(topics=["orders"])))
    for begin in (first, first + EACH_TIME):
        place(begin)
        print(f"placed orders {begin} to {begin + EACH_TIME - 1}; running spark-pipelines ...")
        run()
    check(first + 2 * EACH_TIME)


def make_project() -> None:
    """A copy of the project in this directory, which keeps its checkpoints here too."""
    shutil.copytree(HERE / "definitions", PROJECT / "definitions", dirs_exist_ok=True)
    storage = PROJECT.resolve() / "storage"
    storage.mkdir(exist_ok=True)
    spec = (HERE / "spark-pipeline.yml").read_text()
    place = spec.replace("file:///tmp/milepost-sdp", storage.as_uri())
    (PROJECT / "spark-pipeline.yml").write_text(place)


def place(first: int) -> None:
    messages = [
        Message(
            "OrderPlaced", {"number": n, "customer": f"c{n % 7}", "total": total(n)}, topic="orders"
        )
        for n in range(first, first + EACH_TIME)
    ]
    with mp.connect() as conn:
        mp.append(conn, *messages)


def total(number: int) -> int:
    return number * 37 % 100


def run() -> None:
    """As in a shell: spark-pipelines run. It starts its Spark, and ends when nothing is new."""
    home = quiet_home(java_home(os.environ), os.environ)
    with mp.connect() as conn:
        url = os.environ.get("MILEPOST_URL", conn.info.dsn)
    variables = {"JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "MILEPOST_URL": url}
    command = Path(sys.executable).parent / "spark-pipelines"
    done = subprocess.run(
        [command, "run", "--conf", CATALOG],
        cwd=PROJECT,
        env=os.environ | variables,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def check(count: int) -> None:
    expected = {n for n in range(count) if total(n) >= LARGE}
    numbers = [message.data["number"] for message in mp.read(topics=["large-orders"])]
    if sorted(numbers) != sorted(expected):
        sys.exit(f"expected {len(expected)} large orders in the log, found {len(numbers)}")
    print(f"{count} orders, {len(numbers)} large ones in the topic large-orders, each once")


if __name__ == "__main__":
    main()
