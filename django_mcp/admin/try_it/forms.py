"""A form with one field for each member of a JSON object.

The name of a field is a prefix and the JSON pointer of its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.http import QueryDict

from django_mcp.admin.try_it.fields import JsonField, field_of, initial_of, limits_of, value_of
from django_mcp.admin.try_it.members import MISSING, Member, members_of
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import pointers


class SchemaForm(forms.Form):
    """A form for a value of ``schema``. ``name`` tells it from other forms of the page."""

    use_required_attribute = False

    def __init__(
        self,
        schema: Json,
        data: QueryDict | None = None,
        files: Any = None,
        *,
        name: str = "",
        initial: Any = MISSING,
    ) -> None:
        self.name = name
        self.members = {self._key(it): it for it in members_of(schema, initial)}
        initials = {key: initial_of(member) for key, member in self.members.items()}
        super().__init__(data, files, initial=initials)
        self.fields.update({key: field_of(member) for key, member in self.members.items()})

    def _key(self, member: Member) -> str:
        """Return the name of a field."""
        return self.name + pointers.step(member.name) if member.name else self.name

    def value(self) -> Any:
        """Return the JSON value of a valid form; MISSING if nothing was entered."""
        values = {
            member.name: value_of(member, self.cleaned_data.get(key))
            for key, member in self.members.items()
        }
        if "" in values:
            return values[""]
        return {name: value for name, value in values.items() if value is not MISSING}

    def add_problems(self, text: str) -> None:
        """Show what ``text`` says about values at their fields."""
        keys = {member.name: key for key, member in self.members.items() if member.name}
        for name, path, sentence in dict.fromkeys(_problems(text, keys)):
            # A value of one of several types has the name of each of them as path.
            is_nested = path and isinstance(self.fields[keys[name]], JsonField)
            self.add_error(keys[name], f"{path}: {sentence}" if is_nested else sentence)

    @property
    def layout(self) -> list[Item]:
        """The parts of the form, as the template shows them."""
        return [Item(self[key], member) for key, member in self.members.items()]


class Item:
    """A field of a form, as the template shows it."""

    def __init__(self, field: forms.BoundField, member: Member) -> None:
        self.field = field
        self.label = member.label
        self.help_text = member.help_text
        self.limits = limits_of(member.schema)
        self.is_required = member.is_required
        self.is_checkbox = isinstance(field.field, forms.BooleanField)
        self.has_choices = isinstance(field.field, forms.MultipleChoiceField)
        """Whether it is a group of check boxes, which has no single element to label."""

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


MISSING_MEMBER = re.compile(r"(?:^|; |: )([^\s:;]+): '([^']+)' (is a required property)")
"""A clause of a JSON Schema, which names the object of the value that is missing."""


def _problems(text: str, names: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the members of which ``text`` says something, the path in them, and what it says.

    It has clauses such as "lines.0.number: required, but missing", on lines or between semicolons.
    pydantic adds the names of alternatives to a path.
    """
    if not names:
        return
    for match in MISSING_MEMBER.finditer(text):
        if match[1] == "arguments" and match[2] in names:
            yield match[2], "", match[3]
    longest_first = sorted(names, key=len, reverse=True)
    alternatives = "|".join(map(re.escape, longest_first))
    # One repetition: the text may be of a caller, and a nested one takes exponential time.
    start = rf"(?:^|; |\n|: )({alternatives})(\.[^\s:;]+)?: "
    matches = [*re.finditer(start, text)]
    for index, match in enumerate(matches, 1):
        end = matches[index].start() if index < len(matches) else len(text)
        sentence = re.sub(r"; and (\d+ )?more$", "", text[match.end() : end])
        yield match[1], (match[2] or "").removeprefix("."), sentence
