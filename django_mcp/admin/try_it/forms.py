"""A form for the values of a JSON Schema, with nested objects, and lists with rows.

The name of a field is a prefix and the JSON pointer of its value. A hidden field has the number of
rows of each list, so that rows are added and removed without a script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.http import QueryDict

from django_mcp.admin.try_it import places
from django_mcp.admin.try_it.fields import field_of, initial_of, limits_of, value_of
from django_mcp.admin.try_it.places import MISSING, AnyPlace, Group, Rows, Value
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import pointers

ROWS = "rows:"
"""What the name of the hidden field of a list begins with."""


class SchemaForm(forms.Form):
    """A form for a value of ``schema``. ``name`` tells it from other forms of the page.

    Without ``checks``, it shows what was posted as it is.
    """

    use_required_attribute = False

    def __init__(
        self,
        schema: Json,
        data: QueryDict | None = None,
        files: Any = None,
        *,
        name: str = "",
        initial: Any = MISSING,
        checks: bool = True,
    ) -> None:
        self.name = name
        counts = {} if data is None else counts_in(data, name)
        self.place = places.tree(schema, counts, initial)
        values = [*places.values_of(self.place)]
        fields = {self.key(value): field_of(value) for value in values}
        initials = {self.key(value): initial_of(value) for value in values}
        if data is not None and not checks:
            initials |= _posted(fields, data)
            data = None
        super().__init__(data, files, initial=initials)
        self.fields.update(fields)

    def key(self, place: AnyPlace) -> str:
        """Return the name of a field."""
        return f"{self.name}{place.pointer}"

    def value(self) -> Any:
        """Return the JSON value of a valid form; MISSING if nothing was entered."""
        return self._value(self.place)

    def add_problems(self, text: str) -> bool:
        """Show what ``text`` says about values at their fields; return whether it does."""
        problems = dict(_problems(text, self._labels()))
        for name, sentence in problems.items():
            self.add_error(name, sentence)
        return bool(problems)

    @property
    def layout(self) -> list[Item]:
        """The parts of the form, as the template shows them."""
        if isinstance(self.place, Group):
            return [Item(self, member) for member in self.place.members.values()]
        return [Item(self, self.place)]

    def _value(self, place: AnyPlace) -> Any:
        if isinstance(place, Value):
            return value_of(place, self.cleaned_data.get(self.key(place)))
        if isinstance(place, Rows):
            items = [self._value(item) for item in place.items]
            entered = [item for item in items if item is not MISSING]
            return entered if entered or place.is_required else MISSING
        if not place.is_required and not self._is_changed(place):
            return MISSING
        members = {name: self._value(member) for name, member in place.members.items()}
        return {name: value for name, value in members.items() if value is not MISSING}

    def _is_changed(self, place: AnyPlace) -> bool:
        """Whether anything was entered for an object that may be left out."""
        if place.initial is not MISSING and place.initial is not None:
            return True
        names = {self.key(value) for value in places.values_of(place)}
        return not names.isdisjoint(self.changed_data)

    def _labels(self) -> dict[str, str]:
        """The names of the fields, by the paths with which a tool's answer names the values."""
        labels = {}
        for value in places.values_of(self.place):
            labels[_path(value.pointer)] = self.key(value)
        for rows in places.lists_of(self.place):
            first = next(places.values_of(rows), None)
            if first is not None:
                labels.setdefault(_path(rows.pointer), self.key(first))
        return {path: key for path, key in labels.items() if path}


class Item:
    """A part of a form, as the template shows it."""

    def __init__(self, form: SchemaForm, place: AnyPlace, *, is_row: bool = False) -> None:
        self.form = form
        self.place = place
        self.name = form.key(place)
        self.label = place.label
        self.help_text = place.help_text
        self.limits = limits_of(place.schema)
        # A row that is not wanted is removed, or left empty.
        self.is_required = place.is_required and not is_row
        self.is_group = isinstance(place, Group)
        self.is_list = isinstance(place, Rows)

    @property
    def field(self) -> forms.BoundField:
        return self.form[self.name]

    @property
    def widget(self) -> str:
        """The HTML of the widget, which names its help and its errors to screen readers."""
        names = []
        if self.help_text or self.limits:
            names.append(f"{self.field.auto_id}_help")
        attributes: dict[str, str | bool] = {}
        if self.field.errors:
            names.append(f"{self.field.auto_id}_errors")
            attributes["aria-invalid"] = "true"
        if names:
            attributes["aria-describedby"] = " ".join(names)
        return self.field.as_widget(attrs=attributes)

    @property
    def is_checkbox(self) -> bool:
        return isinstance(self.field.field, forms.BooleanField)

    @property
    def has_choices(self) -> bool:
        """Whether it is a group of check boxes, which has no single element to label."""
        return isinstance(self.field.field, forms.MultipleChoiceField)

    @property
    def items(self) -> list[Item]:
        """The members of an object, or the rows of a list."""
        if isinstance(self.place, Group):
            return [Item(self.form, member) for member in self.place.members.values()]
        rows = self.place.items if isinstance(self.place, Rows) else ()
        return [Item(self.form, row, is_row=True) for row in rows]

    @property
    def may_grow(self) -> bool:
        return isinstance(self.place, Rows) and self.place.may_grow

    @property
    def rows_name(self) -> str:
        return f"{ROWS}{self.name}"


MISSING_MEMBER = re.compile(r"(?:^|; |: )([^\s:;]+): '([^']+)' (is a required property)")
"""A clause of a JSON Schema, which names the object of the value that is missing."""


def _posted(fields: Mapping[str, forms.Field], data: QueryDict) -> dict[str, Any]:
    """Return what was posted as widgets show it, without the fields of a new row."""
    widgets = {name: field.widget for name, field in fields.items()}
    return {
        name: widget.value_from_datadict(data, {}, name)
        for name, widget in widgets.items()
        if not widget.value_omitted_from_data(data, {}, name)
    }


def counts_in(data: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return the numbers of rows that a form posts, by the pointers of their lists."""
    prefix = f"{ROWS}{name}"
    return {
        key.removeprefix(prefix): int(data[key])
        for key in data
        if key.startswith(prefix) and str(data[key]).isdecimal() and len(str(data[key])) < 5
    }


def with_row_added(data: QueryDict, name: str) -> QueryDict:
    """Return what was posted, with one more row in the list ``name``."""
    changed = data.copy()
    changed[f"{ROWS}{name}"] = str(rows_in(data, name) + 1)
    return changed


def with_row_removed(data: QueryDict, row: str) -> QueryDict:
    """Return what was posted without one row; the rows below it move up."""
    name, _, number = row.rpartition("/")
    if not number.isdecimal():
        return data
    changed = QueryDict(mutable=True)
    for key, values in data.lists():
        moved = _moved(key, name, int(number))
        if moved is not None:
            changed.setlist(moved, values)
    changed[f"{ROWS}{name}"] = str(max(rows_in(data, name) - 1, 0))
    return changed


def rows_in(data: QueryDict, name: str) -> int:
    """Return the number of rows that was posted for the list ``name``."""
    text = data.get(f"{ROWS}{name}") or ""
    return int(text) if text.isdecimal() and len(text) < 5 else 0


def _moved(key: str, name: str, removed: int) -> str | None:
    """Return the name of a field after a row was removed; None for a field in that row."""
    match = re.fullmatch(rf"({ROWS})?{re.escape(name)}/(\d+)(/.*)?", key)
    if match is None:
        return key
    index = int(match[2])
    if index == removed:
        return None
    index -= index > removed
    return f"{match[1] or ''}{name}/{index}{match[3] or ''}"


def _path(pointer: str) -> str:
    """Return how answers name a value: ``lines.0.number``; nothing for all of the arguments."""
    return ".".join(pointers.names_of(pointer))


def _problems(text: str, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the fields of which ``text`` says something, and what it says.

    It has clauses such as "lines.0.number: required, but missing", on lines or between semicolons.
    pydantic adds the names of alternatives to a path.
    """
    if not labels:
        return
    for match in MISSING_MEMBER.finditer(text):
        path = match[2] if match[1] == "arguments" else f"{match[1]}.{match[2]}"
        name = labels.get(path)
        if name is not None:
            yield name, match[3]
    longest_first = sorted(labels, key=len, reverse=True)
    alternatives = "|".join(map(re.escape, longest_first))
    # One repetition: the text may be of a caller, and a nested one takes exponential time.
    start = rf"(?:^|; |\n|: )({alternatives})(?:\.[^\s:;]+)?: "
    matches = [*re.finditer(start, text)]
    for index, match in enumerate(matches, 1):
        end = matches[index].start() if index < len(matches) else len(text)
        sentence = re.sub(r"; and (\d+ )?more$", "", text[match.end() : end])
        yield labels[match[1]], sentence
