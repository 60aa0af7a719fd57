"""Pipelines that are streams of Spark: stateful ones, and files."""
