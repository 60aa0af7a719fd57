"""Its models: types that Django reads in its own way included."""

from django.contrib.postgres.fields import DateTimeRangeField
from django.db import models


class Order(models.Model):
    number = models.IntegerField(unique=True)
    total = models.IntegerField(default=0)
    placed_at = models.DateTimeField(null=True)
    details = models.JSONField(default=dict)
    address = models.GenericIPAddressField(null=True)
    open_for = DateTimeRangeField(null=True)

    class Meta:
        app_label = "shop"
