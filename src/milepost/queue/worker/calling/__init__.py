"""Calls the handlers: in threads or on an event loop, with one job or with a list of jobs."""
