"""Figures measured side by side, as ratios. Not part of the tests: nothing here fails a build.

`python -m benchmarks [NAME...] [--json] [--quick]`; what each figure means is in README.md.
"""
