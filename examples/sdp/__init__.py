"""A pipeline of Spark Declarative Pipelines that reads the log and writes to it: see README.md.

python -m examples.sdp
"""
