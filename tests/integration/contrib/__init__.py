"""The adapters of frameworks."""
