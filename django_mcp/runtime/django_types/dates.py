"""Dates and times of callers as the site has them: with a time zone, or without one.

Where the site uses time zones (``USE_TZ``), a time without one is in the current time zone. Where
it does not, a time with an offset becomes one of the site's time zone, without it: databases refuse
any other.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.forms.utils import from_current_timezone
from django.utils import timezone
from django.utils.dateparse import parse_datetime

WITHOUT_OFFSET = "A date and time of the site's time zone, such as 2026-01-31T09:30:00"


def to_site(value: datetime) -> datetime:
    """Return a time as the site has it; raises ValueError for one that is in no time zone."""
    try:
        if settings.USE_TZ:
            aware: datetime = from_current_timezone(value)
            return aware
        return timezone.make_naive(value) if timezone.is_aware(value) else value
    except (ValidationError, OverflowError) as error:
        raise ValueError("the time does not exist, or is ambiguous: give its offset") from error


def in_database(value: datetime) -> datetime:
    """Return ``to_site`` of a time that a query compares; raises ValueError for the first and the
    last year, which have no room for the time zones of databases."""
    site_value = to_site(value)
    if not datetime.min.year < site_value.year < datetime.max.year:
        raise ValueError("the year is out of range")
    return site_value.astimezone(UTC) if settings.USE_TZ else site_value


def for_form(value: Any) -> Any:
    """Return the value of a field of a form for dates and times, as the site has it.

    Anything else is returned as it is, for the form to reject.
    """
    try:
        parsed = parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        return value
    if parsed is None or settings.USE_TZ or timezone.is_naive(parsed):
        return value
    try:
        return to_site(parsed).isoformat(sep=" ")
    except ValueError:
        return value


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a time; its format requires an offset."""
    if settings.USE_TZ:
        return {"type": "string", "format": "date-time"}
    return {"type": "string", "description": WITHOUT_OFFSET}
