"""The pages of the call log with many rows, each of which has to answer within a second (median):

python -m tests.benchmarks.many_calls [--rows 1000000] [--database sqlite | postgresql]

Prints the median and the longest of five requests for each page. PostgreSQL is at DATABASE_URL.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from statistics import median

from tests.benchmarks.processes import empty_database

SETTINGS = "tests.benchmarks.many_calls.settings"
LIMIT = 1.0
"""Seconds."""
REPEATS = 5
DAYS = 90
USERS = 200

SQLITE_NUMBERS = """
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {rows})
"""
POSTGRESQL_NUMBERS = """
WITH numbers AS (SELECT n FROM generate_series(0::bigint, {rows}::bigint - 1) AS n)
"""
INSERT = """
INSERT INTO django_mcp_calls_call (
    called_at, day, user_id, principal, program, token, server, kind, component, target, revision,
    client_name, client_version, outcome, is_error, duration, duration_class, arguments,
    arguments_size, response_size
)
{numbers}
SELECT
    {moment}, {day},
    CASE WHEN n % 5 = 0 THEN NULL ELSE n * 7919 % {users} + 1 END,
    'token:' || (n * 7919 % {users}),
    'program ' || (n * 31 % 20), '', 'helpdesk',
    CASE WHEN n % 10 = 0 THEN 'resource' WHEN n % 33 = 0 THEN 'prompt' ELSE 'tool' END,
    'component_' || (n * 613 % 100), 'component_' || (n * 613 % 100), '2026-07-28',
    'client', '1.0',
    CASE WHEN n % 50 = 0 THEN 'error' WHEN n % 997 = 0 THEN 'server_error' ELSE 'ok' END,
    n % 50 = 0 OR n % 997 = 0,
    0.001 * (1 + n * 37 % 1000), 80 + n * 37 % 70, '', 40, 200 + n * 41 % 5000
FROM numbers
"""
MOMENTS = {
    # Rows have the order of their time, as those of a site.
    "sqlite": (
        "datetime('now', '-' || (({rows} - n) * {days} * 86400 / {rows}) || ' seconds')",
        "date('now', '-' || (({rows} - n) * {days} * 86400 / {rows}) || ' seconds')",
    ),
    "postgresql": (
        "now() - ({rows} - n) * interval '{days} days' / {rows}",
        "(now() - ({rows} - n) * interval '{days} days' / {rows})::date",
    ),
}

FILTERS = (
    "",
    "p=99",
    "day__gte={week}",
    "day__gte={today}",
    "outcome__exact=ok",
    "outcome__exact=error",
    "outcome__exact=server_error",
    "outcome__exact=cancelled",
    "component=component_7",
    "component=nothing",
    "component=-",
    "user=user7",
    "user=-",
    "user=nobody",
    "program=program 7",
    "program=-",
    "program=nothing",
    "kind__exact=tool",
    "kind__exact=prompt",
    "server=helpdesk",
    "server=example-site",
    "user=user7&outcome__exact=error",
    "component=component_7&outcome__exact=server_error",
    "component=component_7&user=user7&day__gte={week}",
    "program=program 7&kind__exact=prompt",
    "user=user7&component=nothing",
)
PERIODS = ("days=1", "days=7", "days=30")


def main() -> int:
    """Fill a table, and ask for each page; return 1 if one takes too long."""
    parser = argparse.ArgumentParser(prog="many_calls", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--database", choices=sorted(MOMENTS), default="sqlite")
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    os.environ.update(empty_database(options.database))
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    _fill(options.database, options.rows)
    slow = 0
    print(
        f"| {options.database}, {options.rows:,} rows | median | longest |\n| --- | ---: | ---: |"
    )
    for url, seconds in _measured():
        slow += median(seconds) > LIMIT
        print(f"| `{url}` | {median(seconds) * 1000:.0f} ms | {max(seconds) * 1000:.0f} ms |")
    print(f"{slow} pages took more than {LIMIT:g} s", file=sys.stderr)
    return bool(slow)


def _fill(vendor: str, rows: int) -> None:
    from django.contrib.auth.models import User
    from django.db import connection

    User.objects.all().delete()
    names = (User(pk=number, username=f"user{number}") for number in range(1, USERS + 1))
    User.objects.bulk_create(names)
    numbers = SQLITE_NUMBERS if vendor == "sqlite" else POSTGRESQL_NUMBERS
    moment, day = (text.format(rows=rows, days=DAYS) for text in MOMENTS[vendor])
    with connection.cursor() as cursor:
        text = INSERT.format(numbers=numbers.format(rows=rows), moment=moment, day=day, users=USERS)
        cursor.execute(text)
        # As the server does by itself, later.
        cursor.execute("ANALYZE" if vendor == "sqlite" else "VACUUM ANALYZE")


def _measured() -> Iterator[tuple[str, list[float]]]:
    from datetime import timedelta

    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse
    from django.utils import timezone

    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.create_superuser("root", pk=USERS + 1))
    today = timezone.now().date()
    days = {"today": today, "week": today - timedelta(days=7)}
    listed = reverse("admin:django_mcp_calls_call_changelist")
    dashboard = reverse("admin:django_mcp_calls_dashboard")
    pages = [f"{listed}?{query.format(**days)}" for query in FILTERS]
    for url in (*pages, *(f"{dashboard}?{period}" for period in PERIODS)):
        seconds = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            response = client.get(url)
            seconds.append(time.perf_counter() - began)
            if response.status_code != 200:
                raise RuntimeError(f"{url} answers {response.status_code}")
        yield url, seconds


if __name__ == "__main__":
    sys.exit(main())
