"""Processors with engine="spark"."""

from milepost.pipeline.engine.processor import SparkProcessor

__all__ = ["SparkProcessor"]
