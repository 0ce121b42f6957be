"""A field of a Django form for a value of a JSON Schema."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.try_it.members import MISSING, Member, choices_of
from django_mcp.core.components.arguments import is_file
from django_mcp.core.protocol.errors import Json

SHORT = 100
"""Characters of the longest text with one line."""
NO_CHOICE = ("", "---------")


def field_of(member: Member) -> forms.Field:
    """Return the field of a value. The form reads it, and the tool validates it."""
    make = _maker(member.schema)
    field = make(member)
    field.required = False
    field.label = member.label
    field.help_text = member.help_text
    return field


def initial_of(member: Member) -> Any:
    """Return the initial value as the field takes it."""
    initial = member.initial
    if choices_of(member.schema) is not None:
        return "" if initial is MISSING else _key(initial)
    if initial is MISSING or initial is None:
        return None
    is_enumeration = _maker(member.schema) is _several
    return [_key(item) for item in initial] if is_enumeration else initial


def value_of(member: Member, cleaned: Any) -> Any:
    """Return the JSON value that was entered; MISSING for an empty one that is left out."""
    if cleaned not in (None, "", []):
        return cleaned
    if not member.is_required:
        return MISSING
    if member.is_nullable:
        return None
    return cleaned if cleaned == [] else MISSING


def limits_of(schema: Json) -> str:
    """Return the limits of a value in words: "1 to 50", "at most 200 characters"."""
    limits = [
        _range(schema, "minimum", "maximum", ""),
        _range(schema, "minLength", "maxLength", f" {_('characters')}")
        or _range(schema, "minItems", "maxItems", f" {_('items')}"),
    ]
    if "exclusiveMinimum" in schema:
        limits.append(f"> {schema['exclusiveMinimum']}")
    if "exclusiveMaximum" in schema:
        limits.append(f"< {schema['exclusiveMaximum']}")
    if isinstance(schema.get("pattern"), str):
        limits.append(schema["pattern"])
    return ", ".join(filter(None, limits))


def _range(schema: Json, least: str, most: str, unit: str) -> str:
    low = schema.get(least)
    high = schema.get(most)
    if low is None and high is None:
        return ""
    if low is None:
        return str(_("at most %(number)s") % {"number": high}) + unit
    if high is None:
        return str(_("at least %(number)s") % {"number": low}) + unit
    return str(_("%(low)s to %(high)s") % {"low": low, "high": high}) + unit


class NumberField(forms.FloatField):
    """A number, which stays an integer if it is written as one."""

    def to_python(self, value: Any) -> Any:
        text = str(value).strip() if value is not None else ""
        try:
            return int(text)
        except ValueError:
            return super().to_python(value)

    def validate(self, value: Any) -> None:
        if isinstance(value, float):
            super().validate(value)


class DateField(forms.DateField):
    def clean(self, value: Any) -> Any:
        day = super().clean(value)
        return None if day is None else day.isoformat()


class TimeField(forms.DateTimeField):
    """A date with a time, in the time zone of the site."""

    def clean(self, value: Any) -> Any:
        time = super().clean(value)
        return None if time is None else time.isoformat()


class Base64FileField(forms.FileField):
    """A file, which is sent as base64."""

    def clean(self, data: Any, initial: Any = None) -> Any:
        file = super().clean(data, initial)
        return b64encode(file.read()).decode() if file else None


class UploadField(forms.FileField):
    """A file, which is sent as hosts send files: in a data: URL."""

    def clean(self, data: Any, initial: Any = None) -> Any:
        file = super().clean(data, initial)
        if not file:
            return None
        media_type = file.content_type or "application/octet-stream"
        content = b64encode(file.read()).decode()
        return {
            "download_url": f"data:{media_type};base64,{content}",
            "file_id": "upload",
            "mime_type": media_type,
            "file_name": file.name,
        }


class JsonField(forms.CharField):
    """A value that is written as JSON."""

    def prepare_value(self, value: Any) -> Any:
        is_text = value is None or isinstance(value, str)
        return value if is_text else json.dumps(value, indent=2, ensure_ascii=False)

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        try:
            loaded = json.loads(text)
            # Half of a surrogate pair, which JSON may have, has no form in a page.
            json.dumps(loaded, ensure_ascii=False).encode()
            return loaded
        except (ValueError, RecursionError) as error:
            raise ValidationError(_("This is not JSON: %(error)s") % {"error": error}) from error


class ScalarField(forms.CharField):
    """A value of one of several types, none of them an object or a list."""

    def __init__(self, types: Collection[str], **options: Any) -> None:
        super().__init__(strip=False, **options)
        self.types = types

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            scalar = json.loads(text)
        except (ValueError, RecursionError):
            return text
        # A decimal number keeps its digits, as in 49.90.
        is_exact = json.dumps(scalar) == text
        is_other = any(isinstance(scalar, SCALARS[name]) for name in self.types)
        return scalar if is_exact and is_other else text


SCALARS: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (),
}
"""The types of values that are sent as such, and not as a text."""


def _key(value: Any) -> str:
    """Return the value of a choice as it is posted."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _choice(member: Member) -> forms.Field:
    options = [(_key(value), title) for value, title in choices_of(member.schema) or ()]
    has_default = member.initial is not MISSING and member.initial is not None
    if not (member.is_required and has_default):
        options.insert(0, NO_CHOICE)
    return forms.TypedChoiceField(choices=options, coerce=json.loads, empty_value=None)


def _several(member: Member) -> forms.Field:
    options = [(_key(value), title) for value, title in choices_of(member.schema["items"]) or ()]
    return forms.TypedMultipleChoiceField(
        choices=options,
        coerce=json.loads,
        empty_value=[],
        widget=forms.CheckboxSelectMultiple,
    )


def _boolean(member: Member) -> forms.Field:
    if isinstance(member.initial, bool) or (member.is_required and not member.is_nullable):
        return forms.BooleanField()
    options = [NO_CHOICE, ("true", _("Yes")), ("false", _("No"))]
    return forms.TypedChoiceField(choices=options, coerce=json.loads, empty_value=None)


def _integer(member: Member) -> forms.Field:
    return forms.IntegerField(widget=forms.NumberInput(attrs={"class": "vIntegerField"}))


def _number(member: Member) -> forms.Field:
    return NumberField(widget=forms.NumberInput(attrs={"class": "vIntegerField", "step": "any"}))


def _json(member: Member) -> forms.Field:
    attributes = {"class": "vLargeTextField mcp-json", "rows": "4", "spellcheck": "false"}
    if isinstance(member.sketch, dict | list):
        attributes["placeholder"] = json.dumps(member.sketch, ensure_ascii=False)
    return JsonField(widget=forms.Textarea(attrs=attributes))


def _text(member: Member) -> forms.Field:
    schema = member.schema
    is_short = schema.get("maxLength", SHORT + 1) <= SHORT
    if is_short or "pattern" in schema or "format" in schema:
        attributes = {"class": "vTextField", **INPUT_TYPES.get(schema.get("format"), {})}
        return forms.CharField(strip=False, widget=forms.TextInput(attrs=attributes))
    attributes = {"class": "vLargeTextField mcp-text-input", "rows": "1"}
    return forms.CharField(strip=False, widget=forms.Textarea(attrs=attributes))


def _date(member: Member) -> forms.Field:
    return DateField(widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"))


def _time(member: Member) -> forms.Field:
    widget = forms.DateTimeInput(
        attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S"
    )
    return TimeField(widget=widget)


def _password(member: Member) -> forms.Field:
    return forms.CharField(strip=False, widget=forms.PasswordInput(attrs={"class": "vTextField"}))


def _file(member: Member) -> forms.Field:
    return Base64FileField()


def _upload(member: Member) -> forms.Field:
    return UploadField()


def _scalar(member: Member) -> forms.Field:
    widget = forms.TextInput(attrs={"class": "vTextField"})
    return ScalarField(_scalar_types(member.schema), widget=widget)


def _scalar_types(schema: Json) -> list[Any]:
    """Return the alternative types of a value; none where it may be something else."""
    kinds: list[Any] = []
    for option in schema.get("anyOf") or schema.get("oneOf") or [schema]:
        named = option.get("type") if isinstance(option, Mapping) else None
        kinds += named if isinstance(named, list) else [named]
    return kinds if all(kind in SCALARS for kind in kinds) else []


INPUT_TYPES: Mapping[Any, dict[str, str]] = {
    "email": {"type": "email"},
    "uri": {"type": "url"},
}
"""The type of the input, by the format of a text."""

Maker = Callable[[Member], forms.Field]

BY_FORMAT: Mapping[Any, Maker] = {
    "date": _date,
    "date-time": _time,
    "password": _password,
    "binary": _file,
}
BY_TYPE: Mapping[Any, Maker] = {
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
}


def _maker(schema: Json) -> Maker:
    if choices_of(schema) is not None:
        return _choice
    kind = schema.get("type")
    if is_file(schema) and kind != "array":
        return _upload
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        is_enumeration = choices_of(schema["items"]) is not None
        return _several if is_enumeration else _json
    if kind == "string" and schema.get("contentEncoding") == "base64":
        return _file
    if kind == "string":
        return BY_FORMAT.get(schema.get("format"), _text)
    if kind is None or isinstance(kind, list):
        return _scalar if _scalar_types(schema) else _json
    return BY_TYPE.get(kind, _json)
