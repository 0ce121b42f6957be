"""The class of django-simple-history, as far as its middleware uses it."""

from __future__ import annotations

from asgiref.local import Local


class HistoricalRecords:
    context = Local()
