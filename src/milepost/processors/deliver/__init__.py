"""Deliver messages to handlers, and move the checkpoint with their effects."""
