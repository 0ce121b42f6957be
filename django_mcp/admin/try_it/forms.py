"""A form with one field for each member of a JSON object, and the questions that it answers.

The name of a field is a prefix and the JSON pointer of its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.http import QueryDict

from django_mcp.admin.try_it.fields import JsonField, field_of, initial_of, limits_of, value_of
from django_mcp.admin.try_it.members import MISSING, Member, members_of
from django_mcp.admin.try_it.rendering import safe_url
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import walk


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
        self.members: dict[str, Member] = {}
        for member in members_of(schema, initial):
            step = walk.step(member.name) if member.name else ""
            self.members[name + step] = member
        initials = {key: initial_of(member) for key, member in self.members.items()}
        super().__init__(data, files, initial=initials)
        self.fields.update({key: field_of(member) for key, member in self.members.items()})

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
    """Yield the members that ``text`` names, the path in each of them, and the sentence about it.

    The text has clauses such as "lines.0.number: required, but missing", on lines or between
    semicolons. pydantic adds the names of alternatives to a path.
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


# The questions of a call.

ACCEPT = "accept"
ACTIONS = (ACCEPT, "decline", "cancel")
"""The buttons, and the answers that they send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An input request; ``form`` is None for one that sends its user to a page."""

    key: str
    message: str
    form: SchemaForm | None = None
    url: str = ""
    """The page, or "" if it is none of the web."""
    host: str = ""

    def response(self, action: str) -> dict[str, Any]:
        """Return the result of the elicitation."""
        if action != ACCEPT or self.form is None:
            return {"action": action}
        content = self.form.value()
        return {"action": action, "content": {} if content is MISSING else content}


def questions_of(requests: Mapping[str, Json], data: QueryDict | None = None) -> list[Question]:
    """Return the questions; ``data`` are the posted answers."""
    return [_question(key, request["params"], data) for key, request in requests.items()]


def are_valid(questions: Iterable[Question]) -> bool:
    """Whether all forms can be sent; each of them then shows its errors."""
    validities = [question.form.is_valid() for question in questions if question.form is not None]
    return all(validities)


def _question(key: str, params: Json, data: QueryDict | None) -> Question:
    message = str(params.get("message", ""))
    if params.get("mode") == "url":
        url = safe_url(str(params.get("url", "")))
        return Question(key=key, message=message, url=url, host=urlsplit(url).netloc)
    schema = params.get("requestedSchema") or {}
    form = SchemaForm(schema, data, name=f"answer:{key}")
    return Question(key=key, message=message, form=form)
