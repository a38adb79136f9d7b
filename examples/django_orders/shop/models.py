"""The database."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """An order of a customer."""

    item: models.CharField[str, str] = models.CharField(max_length=100)
    handled: models.BooleanField[bool, bool] = models.BooleanField(default=False)

    def __str__(self) -> str:
        """Show the order in the admin site and in logs."""
        return f"{self.item} ({'handled' if self.handled else 'accepted'})"
