"""Append the flights, run the pipelines, compare with pandas, save the picture."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from examples.flights import check, plot, source
from examples.flights.app import mp


def main() -> None:
    arguments = _parser().parse_args()
    flights = source.frame(arguments.flights)
    mp.migrate()
    if source.is_empty():
        print(f"appending {len(flights):,} flights ...")
        print(f"appended {source.append(flights):,} messages")
    print("running the pipelines on Spark ...")
    mp.run(until="caught_up")
    if wrong := check.differences(flights):
        sys.exit("\n".join(["the tables differ from pandas:", *wrong[:10]]))
    plot.save(arguments.plot)
    print(f"{len(flights):,} flights: every number equals pandas'. See {arguments.plot}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("--flights", type=int, help="only the first so many")
    parser.add_argument("--plot", type=Path, default=Path("flights.png"), help="where to save it")
    return parser


if __name__ == "__main__":
    main()
