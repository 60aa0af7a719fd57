"""The migrations that `manage.py migrate` runs."""
