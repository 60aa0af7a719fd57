"""What `manage.py milepost run` runs in a project whose settings name no application: its tasks."""

from milepost.app import Milepost

mp = Milepost.from_django()
