"""Handlers that say themselves how far their work is durable."""
