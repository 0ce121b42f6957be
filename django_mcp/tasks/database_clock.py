"""The clock of the database: leases and deadlines are set and compared by it.

The clocks of workers differ: one that is ahead would take over what another one still runs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.functions import Now as DjangoNow
from django.utils import timezone


class Now(DjangoNow):
    """The time of the database, as Django stores times there.

    Django's own ``Now`` has the time zone of the server on MySQL, and UTC on SQLite, whatever
    USE_TZ says.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        zone = "" if settings.USE_TZ else ", 'localtime'"
        template = f"STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f', 'NOW'{zone})"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "UTC_TIMESTAMP(6)"
        if not settings.USE_TZ:
            offset = datetime.now(timezone.get_default_timezone()).utcoffset() or timedelta()
            seconds = round(offset.total_seconds())
            template = f"(UTC_TIMESTAMP(6) + INTERVAL {seconds} SECOND)"
        return self.as_sql(compiler, connection, template=template, **context)


def after(duration: timedelta) -> ExpressionWrapper[Any]:
    """The time of the database after a duration, for an INSERT, an UPDATE or a condition."""
    return ExpressionWrapper(Now() + duration, output_field=DateTimeField())


def timestamp(moment: Any) -> float:
    """Seconds since 1970 of a time that Django has read."""
    aware: datetime = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.timestamp()
