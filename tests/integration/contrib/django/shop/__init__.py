"""A Django app with a little of everything."""
