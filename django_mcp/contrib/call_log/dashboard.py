"""The numbers of the dashboard: calls, errors, median and 95th percentile over days.

The database counts calls by component or user, error and class of duration. Each query reads the
days that it needs of one index, and not the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.db.models import Count, Max, Sum, Value
from django.db.models.functions import Concat
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.contrib.call_log.models import Call, CallQuerySet, percentile

MOST = 50
"""Lines of a table: those with the most calls."""


class Group(NamedTuple):
    """Calls that the database has counted: of one component or user, error and class."""

    is_error: bool
    duration_class: int
    number: int
    bytes: int | None
    responses: int
    """Calls with a response, whose size is known; those that were cancelled have none."""


@dataclass
class Counts:
    """The calls of a day, a component or a user."""

    calls: int = 0
    errors: int = 0
    by_class: Counter[int] = field(default_factory=Counter)
    bytes: int = 0
    """Of all responses."""
    responses: int = 0

    def add(self, group: Group) -> None:
        self.calls += group.number
        self.by_class[group.duration_class] += group.number
        self.bytes += group.bytes or 0
        self.responses += group.responses
        if group.is_error:
            self.errors += group.number

    def merge(self, other: Counts) -> None:
        self.calls += other.calls
        self.errors += other.errors
        self.by_class += other.by_class
        self.bytes += other.bytes
        self.responses += other.responses

    @property
    def error_rate(self) -> str:
        """The share of errors, such as "2.5 %"; "" without errors."""
        if not self.errors:
            return ""
        percent = 100 * self.errors / self.calls
        if percent < 0.05:
            return "< 0.1 %"
        return f"{percent:.0f} %" if percent >= 10 else f"{percent:.1f} %"

    @property
    def mean_size(self) -> str:
        """The mean size of a response, such as "1.2 kB"; "" without any."""
        return size_in_words(self.bytes // self.responses) if self.bytes else ""

    @property
    def median(self) -> str:
        return in_words(percentile(self.by_class, 0.5))

    @property
    def percentile_95(self) -> str:
        return in_words(percentile(self.by_class, 0.95))


class Line(NamedTuple):
    """A line of a table, and the filters of the list that shows its calls."""

    name: Any
    server: str
    kind: str
    counts: Counts
    filters: Mapping[str, str]
    """Empty where no filters find them."""


@dataclass(frozen=True)
class Dashboard:
    """The numbers of the days from ``first`` to ``last``."""

    first: date
    last: date
    total: Counts
    days: list[tuple[date, Counts]]
    components: list[Line]
    users: list[Line]
    others: int
    """Components and users beyond MOST, which no table shows."""


def read(days: int) -> Dashboard:
    """Count the calls of so many days; the last one is today."""
    last = _today()
    first = _first_day(days)
    rows = _of_days(days)
    total = Counts()
    by_component: dict[Any, Counts] = {}
    for component, group in _counted(rows, "server", "kind", "component"):
        for counts in (total, by_component.setdefault(component, Counts())):
            counts.add(group)
    by_user: dict[Any, Counts] = {}
    for (user,), group in _counted(rows, "user"):
        by_user.setdefault(user, Counts()).add(group)
    since = {"day__gte": first.isoformat()}
    components = []
    for (server, kind, component), counts in _largest(by_component):
        filters = {**since, "server": server, "kind__exact": kind, "component": component or NONE}
        label = component or _("(not declared)")
        components.append(Line(label, server, kind, counts, filters))
    return Dashboard(
        first=first,
        last=last,
        total=total,
        days=_by_day(rows, first, days),
        components=components,
        users=_user_lines(_largest(by_user), since),
        others=max(len(by_component) - MOST, 0) + max(len(by_user) - MOST, 0),
    )


def calls_by_component(days: int) -> dict[tuple[str, str, str], Counts]:
    """Count the calls of so many days by server, kind and component, without durations."""
    rows = _of_days(days)
    counted = rows.values_list("server", "kind", "component", "is_error")
    counts: dict[tuple[str, str, str], Counts] = {}
    for server, kind, component, is_error, number in counted.annotate(number=Count("*")):
        of_component = counts.setdefault((server, kind, component), Counts())
        of_component.calls += number
        of_component.errors += number if is_error else 0
    return counts


@dataclass(frozen=True)
class ComponentCalls:
    """The calls of one component."""

    total: Counts
    days: list[tuple[date, Counts]]
    filters: Mapping[str, str]
    """Those of the list that shows its calls."""


def of_component(server: str, kind: str, component: str, days: int) -> ComponentCalls:
    """Count the calls of one component on so many days; the last one is today."""
    # An expression, because SQLite would read all calls of the component by another index.
    with_key = _of_days(days).alias(key=Concat("kind", Value(":"), "component"))
    rows = with_key.filter(server=server, key=f"{kind}:{component}")
    total = Counts()
    for _no_columns, group in _counted(rows):
        total.add(group)
    filters = {"server": server, "kind__exact": kind, "component": component}
    return ComponentCalls(total, _by_day(rows, _first_day(days), days), filters)


class ExceptionLine(NamedTuple):
    """Calls that ended with one exception, and the filters of the list that shows them."""

    component: str
    text: str
    """Of the newest call."""
    calls: int
    last: datetime
    filters: Mapping[str, str]


def exceptions(days: int) -> list[ExceptionLine]:
    """Group the calls of so many days that ended with an unexpected exception, by fingerprint."""
    failed = _of_days(days).filter(is_error=True).exclude(fingerprint="")
    grouped = failed.values("fingerprint").annotate(
        number=Count("*"), newest=Max("id"), last=Max("called_at")
    )
    groups = list(grouped.order_by("-number", "fingerprint")[:MOST])
    newest = Call.objects.in_bulk([group["newest"] for group in groups])
    lines = []
    for group in groups:
        row = newest.get(group["newest"])
        if row is not None:  # It may have been deleted meanwhile.
            since = {"day__gte": _first_day(days).isoformat()}
            filters = {**since, "fingerprint": group["fingerprint"]}
            lines.append(
                ExceptionLine(row.target, row.exception, group["number"], group["last"], filters)
            )
    return lines


def _of_days(days: int) -> CallQuerySet:
    """The calls of so many days, in no order."""
    # The clock of another process may be in the next day. Without an upper bound, SQLite would
    # expect many rows, and read the whole table by the index of users.
    tomorrow = _today() + timedelta(days=1)
    return Call.objects.filter(day__range=(_first_day(days), tomorrow)).order_by()


def _first_day(days: int) -> date:
    return _today() - timedelta(days=days - 1)


def _today() -> date:
    # Django's own function refuses the naive times of a site without USE_TZ.
    return datetime.now(timezone.get_default_timezone()).date()


def _counted(rows: CallQuerySet, *columns: str) -> Iterator[tuple[tuple[Any, ...], Group]]:
    """The calls by these columns, error and class of duration."""
    grouped = rows.values_list(*columns, "is_error", "duration_class").annotate(
        number=Count("*"), bytes=Sum("response_size"), responses=Count("response_size")
    )
    width = len(columns)
    for values in grouped.iterator():
        yield values[:width], Group(*values[width:])


def _by_day(rows: CallQuerySet, first: date, days: int) -> list[tuple[date, Counts]]:
    """The calls of each day, without durations."""
    every_day = {first + timedelta(days=number): Counts() for number in range(days)}
    counted = rows.values_list("day", "is_error").annotate(number=Count("*"))
    for day, is_error, number in counted:
        # There may be a day more: see _of_days.
        counts = every_day.setdefault(day, Counts())
        counts.calls += number
        counts.errors += number if is_error else 0
    return list(every_day.items())


def _largest(counted: Mapping[Any, Counts]) -> list[tuple[Any, Counts]]:
    """The entries with the most calls, at most MOST."""

    def order(entry: tuple[Any, Counts]) -> tuple[int, str]:
        return -entry[1].calls, str(entry[0])

    return sorted(counted.items(), key=order)[:MOST]


def _user_lines(counted: list[tuple[Any, Counts]], since: Mapping[str, str]) -> list[Line]:
    # The other manager may hide some, such as those who are deactivated.
    users = get_user_model()._base_manager.in_bulk([key for key, _counts in counted if key])
    names = {key: user.get_username() for key, user in users.items()}
    lines = [
        Line(names[key], "", "", counts, {**since, "user": names[key]})
        for key, counts in counted
        if key in names
    ]
    others = [entry for entry in counted if entry[0] not in names]
    if others:
        # The keys of deleted users stay in another database, where no filter knows them.
        are_found = all(key is None for key, _counts in others)
        total = Counts()
        for _key, counts in others:
            total.merge(counts)
        filters = {**since, "user": NONE} if are_found else {}
        lines.append(Line(NOBODY, "", "", total, filters))
    return sorted(lines, key=lambda line: -line.counts.calls)


NOBODY = _("anonymous, or not a user")
NONE = "-"
"""The value of a filter for calls without a user, or of what no server declares."""


def in_words(seconds: float | None) -> str:
    """A duration with two digits, such as "12 ms" or "1.4 s"."""
    if seconds is None:
        return ""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        milliseconds = seconds * 1000
        return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min"


def size_in_words(size: int | None) -> str:
    """Bytes with two digits, such as "870 B" or "1.4 kB"."""
    if size is None:
        return ""
    if size < 1000:
        return f"{size} B"
    unit = "kB" if size < 1_000_000 else "MB"
    number = size / 1000 if unit == "kB" else size / 1_000_000
    return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
