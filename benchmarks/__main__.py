"""Measure the figures that were named, or all. A target missed is shown, never an exit code:
no build depends on how busy a machine is."""

from __future__ import annotations

import argparse
import signal
import sys

from benchmarks import report
from benchmarks.figure import Skipped
from benchmarks.figures import FIGURES, named
from benchmarks.workbench import workbench


def main() -> None:
    parser = _parser()
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {figure.name for figure in FIGURES}:
        parser.error(f"no figure is called {', '.join(sorted(unknown))}")
    # An exception instead of an end on the spot, so that the server is stopped in any case.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    figures = []
    with workbench(is_quick=arguments.quick) as bench:
        for figure in named(arguments.names):
            print(f"measuring {figure.name} ...", file=sys.stderr, flush=True)
            try:
                figures.append((figure, figure.measure(bench)))
            except Skipped as skipped:
                print(f"{figure.name} is left out: {skipped}", file=sys.stderr, flush=True)
        run = report.Run(bench.server_version(), arguments.quick, figures)
    if arguments.json:
        print(report.as_json(run))
    else:
        report.print_table(run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [figure.name for figure in FIGURES]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--json", action="store_true", help="every round's numbers")
    parser.add_argument("--quick", action="store_true", help="a few seconds a figure: a smoke test")
    return parser


if __name__ == "__main__":
    main()
