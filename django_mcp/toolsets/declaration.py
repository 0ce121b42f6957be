"""The declaration of a toolset, read once: columns, filters, orderings, groups and aggregates.

Whatever is not here cannot be reached by a call: arguments are names in these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from django.db.models import Avg, Max, Min, Model, Sum
from django.db.models.functions import (
    TruncDay,
    TruncMonth,
    TruncQuarter,
    TruncWeek,
    TruncYear,
)

from django_mcp.core.components.base import ConfigurationError, Problems, listed
from django_mcp.core.protocol import texts
from django_mcp.runtime.django_types.field_types import is_composite
from django_mcp.runtime.django_types.fields import is_hash
from django_mcp.toolsets import lookups
from django_mcp.toolsets.kinds import Kind, Schema, described, kind_of
from django_mcp.toolsets.lookups import Filter
from django_mcp.toolsets.queries.paths import SEPARATOR, Path, resolve

if TYPE_CHECKING:
    from django_mcp.toolsets.base import BaseToolset

T = TypeVar("T")

OPERATIONS = ("list", "get", "count", "aggregate", "create", "update", "delete")
READS_ROWS = ("list", "get", "update", "delete")
ALL_FIELDS = "__all__"
"""All fields in forms of Django, and in serializers; here, each is named."""
FUNCTIONS: Mapping[str, Any] = {"sum": Sum, "avg": Avg, "min": Min, "max": Max}
PERIODS: Mapping[str, Any] = {
    "year": TruncYear,
    "quarter": TruncQuarter,
    "month": TruncMonth,
    "week": TruncWeek,
    "day": TruncDay,
}
DATES = ("date", "datetime")
"""The families of values that are grouped by period."""
RESERVED = ("search", "ordering", "limit", "cursor", "group_by", "aggregates")
"""The arguments that are not filters."""
NUMBERS: Mapping[str, float] = {
    "page_size": 1,
    "max_page_size": 1,
    "max_groups": 1,
    "max_text": 1,
    "max_characters": 1,
    "max_deleted": 0,
    "statement_timeout": 0.001,
}
"""The least value of each limit."""
MAX_ORDERED = 500
"""Characters of the longest text that rows are sorted by: cursors contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One value of each row, under its declared name."""

    path: Path
    kind: Kind

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_nullable(self) -> bool:
        # A related row may be hidden from a caller.
        return self.path.is_nullable or bool(self.path.relations)

    @property
    def schema(self) -> Schema:
        return described(self.kind.schema, self.path.titled, is_nullable=self.is_nullable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A grouping of rows: by a column, or by the period of its date."""

    name: str
    column: Column
    period: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """A function of the values of a group."""

    name: str
    column: Column
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A toolset as it is declared, checked, with its columns and filters."""

    model: type[Model]
    operations: tuple[str, ...]
    columns: tuple[Column, ...]
    key: Column
    pk: Column
    filters: Mapping[str, Filter]
    search: tuple[Path, ...]
    orderings: Mapping[str, Column]
    ordering: tuple[str, ...]
    groups: Mapping[str, Group] = field(default_factory=dict)
    aggregations: Mapping[str, Aggregation] = field(default_factory=dict)
    writers: Sequence[tuple[int, Callable[[Any], Any]]] = field(init=False)
    """The positions of columns with values that pydantic does not write, and their functions."""

    def __post_init__(self) -> None:
        writers = [
            (position, column.kind.write)
            for position, column in enumerate(self.columns)
            if column.kind.write is not None
        ]
        object.__setattr__(self, "writers", writers)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every path that a query may contain."""
        paths = [column.path for column in (*self.columns, *self.orderings.values())]
        paths += [item.path for item in self.filters.values()]
        paths += [group.column.path for group in self.groups.values()]
        paths += [item.column.path for item in self.aggregations.values()]
        return (*paths, *self.search, self.key.path)


def read(toolset: BaseToolset) -> Declaration:
    """Read a toolset's declaration; raises ConfigurationError, with the field and the remedy."""
    reader = _Reader(toolset)
    model = toolset.model
    noted = reader.problems.noted
    columns = reader.each("fields", lambda name: reader.column(name, "fields"))
    if not toolset.fields:
        with noted():
            raise ConfigurationError(f"{reader.where} has no fields: list what callers may read")
    declared: dict[str, Any] = {"operations": ()}
    with noted():
        declared["operations"] = reader.operations()
    orderings = reader.each("ordering_fields", lambda name: reader.ordered(name, "ordering_fields"))
    with noted():
        declared["key"] = reader.key([*columns.values()], declared["operations"])
        declared["pk"] = reader.primary_key()
    with noted():
        declared["filters"] = reader.filters()
    declared["search"] = tuple(reader.each("search_fields", reader.searched).values())
    with noted():
        declared["ordering"] = reader.ordering([*columns.values()], orderings)
    with noted():
        declared["groups"] = reader.groups()
    with noted():
        declared["aggregations"] = reader.aggregations()
    reader.check_numbers()
    reader.problems.raise_all()
    return Declaration(
        model=model, columns=tuple(columns.values()), orderings=orderings, **declared
    )


def check_not_all(given: Any, where: str, possible: Iterable[Any]) -> None:
    """Raise ConfigurationError for all fields in place of a list, which a toolset does not have."""
    if given in (ALL_FIELDS, [ALL_FIELDS], (ALL_FIELDS,)):
        names = ", ".join(repr(each.name) for each in possible if not is_hash(each))
        raise ConfigurationError(
            f"{where} is {ALL_FIELDS!r}, which would include each field that the model gets later: "
            f"list those that callers may reach, of {names}"
        )


def check_operation(name: Any, where: str) -> None:
    """Raise ConfigurationError if ``name`` is no operation."""
    if name not in OPERATIONS:
        remedy = texts.did_you_mean(str(name), OPERATIONS, f"there are {', '.join(OPERATIONS)}")
        raise ConfigurationError(f"{where} has {name!r}, which is no operation: {remedy}")


class _Reader:
    """Reads the attributes of one toolset."""

    def __init__(self, toolset: BaseToolset) -> None:
        self._toolset = toolset
        self._model = toolset.model
        self.where = f"{type(toolset).__module__}.{type(toolset).__qualname__}"
        self._fields = tuple(toolset.fields or ())
        self.problems = Problems()

    def each(self, attribute: str, read: Callable[[str], T]) -> dict[str, T]:
        """Return the meaning of each name of a list; problems are noted by name."""
        values = {}
        with self.problems.noted():
            given = getattr(self._toolset, attribute)
            check_not_all(given, f"{self.where}.{attribute}", self._model._meta.concrete_fields)
            for name in self.names(attribute):
                with self.problems.noted():
                    values[name] = read(name)
        return values

    def names(self, attribute: str) -> tuple[str, ...]:
        """The names in a list; raises ConfigurationError for a string or a repeated name."""
        names = listed(f"{self.where}.{attribute}", getattr(self._toolset, attribute) or ())
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise ConfigurationError(f"{self.where}.{attribute} has {repeated[0]!r} twice")
        return names

    def check_numbers(self) -> None:
        """Note each limit that is not a number, or too small for any answer."""
        for name, least in NUMBERS.items():
            value = getattr(self._toolset, name)
            is_number = type(value) is int or (type(value) is float and name == "statement_timeout")
            with self.problems.noted():
                if not is_number or value < least:
                    raise ConfigurationError(
                        f"{self.where}.{name} is {value!r}: write {least} or more"
                    )
        size = self._toolset.page_size
        most = self._toolset.max_page_size
        with self.problems.noted():
            if type(size) is type(most) is int and size > most:
                raise ConfigurationError(
                    f"{self.where}.page_size is {size}, more than max_page_size, {most}"
                )

    def operations(self) -> tuple[str, ...]:
        operations = self.names("operations")
        for name in operations:
            check_operation(name, f"{self.where}.operations")
        return tuple(name for name in OPERATIONS if name in operations)

    def column(self, name: str, attribute: str) -> Column:
        where = f"{self.where}.{attribute}"
        path = resolve(self._model, name, where)
        if path.relations and path.name not in self._fields:
            raise ConfigurationError(
                f"{where} names {name!r}, a value of a related row that is not in fields: add it "
                "to fields, or remove it here, since callers could find it out"
            )
        if is_hash(path.field):
            raise ConfigurationError(
                f"{where} names {name!r}, the hash of a password, which a model must not read: "
                "leave it out"
            )
        return Column(path=path, kind=kind_of(path.field, where))

    def key(self, columns: Sequence[Column], operations: Iterable[str]) -> Column:
        """The column that identifies a single row: as declared, else a unique one of fields."""
        name = self._toolset.key
        if name is None:
            unique = [c for c in columns if _is_unique(c.path)]
            unique.sort(key=lambda column: not column.path.titled.primary_key)
            if unique:
                return unique[0]
            if set(operations) & set(READS_ROWS) - {"list"} and len(columns) == len(self._fields):
                added = "one" if is_composite(self._model._meta.pk) else '"pk"'
                raise ConfigurationError(
                    f"{self.where} has no unique field in fields: add {added}, or set key"
                )
            return self.primary_key()
        column = self.column(name, "key")
        if not _is_unique(column.path):
            raise ConfigurationError(
                f"{self.where}.key is {name!r}, which several rows may have or which may be "
                "missing: name a unique field of the model itself"
            )
        if name not in self._fields:
            raise ConfigurationError(f"{self.where}.key is {name!r}: add it to fields")
        return column

    def primary_key(self) -> Column:
        """The column that decides among rows; a unique one, if the key has several columns."""
        if is_composite(self._model._meta.pk):
            names = [self._toolset.key] if self._toolset.key else self._fields
            columns = [self.column(name, "fields") for name in names]
            unique = next((column for column in columns if _is_unique(column.path)), None)
            if unique is None:
                raise ConfigurationError(
                    f"{self.where}: the primary key of {self._model.__name__} has several "
                    "columns, so that a unique field has to identify its rows: add one to fields"
                )
            return unique
        path = resolve(self._model, "pk", self.where)
        return Column(path=path, kind=kind_of(path.field, self.where))

    def filters(self) -> dict[str, Filter]:
        declared = self._toolset.filter_fields or {}
        if not isinstance(declared, Mapping):
            raise ConfigurationError(
                f'{self.where}.filter_fields must be a dict, such as {{"status": ["exact"]}}'
            )
        where = f"{self.where}.filter_fields"
        filters: dict[str, Filter] = {}
        for name, allowed in declared.items():
            with self.problems.noted():
                column = self.column(name, "filter_fields")
                for lookup in listed(f"{where}[{name!r}]", allowed):
                    with self.problems.noted():
                        item = lookups.build(column.path, column.kind, lookup, where)
                        if item.argument in RESERVED:
                            item = replace(item, argument=f"{item.argument}{SEPARATOR}exact")
                        if item.argument in filters:
                            raise ConfigurationError(f"{where} has {item.argument!r} twice")
                        filters[item.argument] = item
        return filters

    def searched(self, name: str) -> Path:
        column = self.column(name, "search_fields")
        if column.kind.family != "text":
            raise ConfigurationError(
                f"{self.where}.search_fields names {name!r}, which is no text: use filter_fields"
            )
        if not column.path.has_lookup("icontains"):
            raise ConfigurationError(
                f"{self.where}.search_fields names {name!r}, which cannot be searched. "
                f"{lookups.remedy_of_relation(column.path)}"
            )
        return column.path

    def ordered(self, name: str, attribute: str) -> Column:
        column = self.column(name, attribute)
        kind = column.kind
        is_long = kind.family == "text" and (kind.max_length or MAX_ORDERED + 1) > MAX_ORDERED
        if is_long or kind.family == "other":
            raise ConfigurationError(
                f"{self.where}.{attribute} names {name!r}, a {type(column.path.field).__name__}: "
                "rows are sorted by numbers, dates, durations, and texts of at most "
                f"{MAX_ORDERED} characters"
            )
        return column

    def ordering(
        self, columns: Iterable[Column], orderings: Mapping[str, Column]
    ) -> tuple[str, ...]:
        """The default ordering, by fields that callers may see or sort by."""
        names = self.names("ordering")
        visible = {*orderings, *(column.name for column in columns)}
        for name in names:
            with self.problems.noted():
                if name.removeprefix("-") not in visible:
                    raise ConfigurationError(
                        f"{self.where}.ordering names {name!r}, which is neither in fields nor in "
                        "ordering_fields: callers could find out its order"
                    )
                self.ordered(name.removeprefix("-"), "ordering")
        return names

    def groups(self) -> dict[str, Group]:
        """The columns to group by; a date has one group for each of its periods."""
        groups = []
        for name, column in self.each("group_fields", self._grouped).items():
            if column.kind.family not in DATES:
                groups.append(Group(name=name, column=column))
                continue
            for period in PERIODS:
                alias = f"{name}{SEPARATOR}{period}"
                groups.append(Group(name=alias, column=column, period=period))
        return {group.name: group for group in groups}

    def _grouped(self, name: str) -> Column:
        date, _, period = name.rpartition(SEPARATOR)
        try:
            column = self.column(name, "group_fields")
        except ConfigurationError:
            if period in PERIODS and self._is_date(date):
                periods = ", ".join(f"{date}{SEPARATOR}{each}" for each in PERIODS)
                raise ConfigurationError(
                    f"{self.where}.group_fields names {name!r}: write {date!r}, which callers "
                    f"group by {periods}"
                ) from None
            raise
        if not column.kind.is_bounded:
            raise ConfigurationError(
                f"{self.where}.group_fields names {name!r}, whose values may be long: group "
                "by a shorter field"
            )
        return column

    def _is_date(self, name: str) -> bool:
        """Whether a name is that of a date, which has one group for each of its periods."""
        try:
            return self.column(name, "group_fields").kind.family in DATES
        except ConfigurationError:
            return False

    def aggregations(self) -> dict[str, Aggregation]:
        declared = self._toolset.aggregate_fields or {}
        if not isinstance(declared, Mapping):
            raise ConfigurationError(
                f'{self.where}.aggregate_fields must be a dict, such as {{"price": ["sum"]}}'
            )
        aggregations = {}
        for name, functions in declared.items():
            with self.problems.noted():
                column = self.column(name, "aggregate_fields")
                possible = AGGREGATES.get(column.kind.family, ())
                for function in listed(f"{self.where}.aggregate_fields[{name!r}]", functions):
                    if function not in possible:
                        raise ConfigurationError(
                            f"{self.where}.aggregate_fields has {function!r} for {name!r}. "
                            f"Possible are: {', '.join(possible) or 'none'}"
                        )
                    alias = f"{name}{SEPARATOR}{function}"
                    aggregations[alias] = Aggregation(name=alias, column=column, function=function)
        return aggregations


AGGREGATES: Mapping[str, tuple[str, ...]] = {
    "number": ("sum", "avg", "min", "max"),
    "date": ("min", "max"),
    "datetime": ("min", "max"),
    "time": ("min", "max"),
    "duration": ("sum", "avg", "min", "max"),
}


def _is_unique(path: Path) -> bool:
    """Whether each row of the model has another value; a foreign key only as the primary key."""
    if path.is_nullable or SEPARATOR in path.name:
        return False
    return bool(path.titled.primary_key if path.relations else path.titled.unique)
