"""Makes Milepost's schema. Later versions need no other migration: see migrating.py."""

from django.db import migrations

from milepost.contrib.django.migrating import keep, make


class Migration(migrations.Migration):
    """Not atomic: `make` has transactions of its own, which must not wait for Django's."""

    initial = True
    atomic = False
    dependencies = ()
    operations = (migrations.RunPython(make, keep),)
