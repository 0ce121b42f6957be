"""The JSON Schemas of serializers for input.

Used where drf-spectacular does not describe the view. Nothing here reads the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from math import isfinite
from typing import Any

from rest_framework import fields, relations, serializers
from rest_framework.settings import api_settings
from rest_framework.validators import UniqueTogetherValidator

from django_mcp.core.protocol.schema.shapes import Choices, or_null
from django_mcp.core.protocol.schema.steps import search
from django_mcp.runtime.django_types import uploads
from django_mcp.runtime.django_types.field_types import (
    MAX_CHOICES,
    STRING,
    TypeName,
    bound,
    field_type,
    key_schema,
    labels_of,
    with_bounds,
)

Schema = dict[str, Any]


@dataclass
class _Definitions:
    """The serializers that are being described, and the schemas of those in themselves."""

    open: dict[tuple[Any, ...], str] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)
    referenced: set[str] = field(default_factory=set)

    def name_of(self, kind: type) -> str:
        """Return a name that no other serializer has."""
        taken = {*self.open.values(), *self.schemas}
        names = (f"{kind.__name__}{number or ''}" for number in count())
        return next(name for name in names if name not in taken)


_definitions: ContextVar[_Definitions] = ContextVar("django_mcp.rest.serializers")


def body_schema(serializer: Any) -> tuple[Schema, dict[str, Schema]]:
    """Return the result of ``input_schema``, and its definitions."""
    definitions = _Definitions()
    token = _definitions.set(definitions)
    try:
        return input_schema(serializer), definitions.schemas
    finally:
        _definitions.reset(token)


def input_schema(serializer: Any) -> Schema:
    """Return the schema of the data that a serializer, or another field, accepts."""
    build = next(SCHEMAS[kind] for kind in type(serializer).__mro__ if kind in SCHEMAS)
    return build(serializer)


@lru_cache(maxsize=2000)
def shared(kind: Any) -> Any:
    """Return a serializer without a context, which stands for others of its class.

    Its fields are made once for all actions of all views; ``shared.cache_clear`` drops them.
    """
    return kind()


OVERRIDABLE = frozenset(dir(serializers.ModelSerializer)) - {
    *("Meta", "_declared_fields", "__module__", "__doc__", "__dict__", "__annotations__"),
    *("validate", "create", "update", "save", "to_internal_value", "to_representation"),
}
"""The methods that decide about the fields of a serializer, and can depend on its context."""


@lru_cache(maxsize=2000)
def has_constant_fields(kind: Any) -> bool:
    """Whether all serializers of a class have the same fields, for all callers and actions.

    The fields of REST framework itself do; code of the site may read the request.
    """
    own = [base for base in kind.__mro__ if not base.__module__.startswith("rest_framework.")]
    if any(OVERRIDABLE & vars(base).keys() for base in own if base is not object):
        return False
    fields_of_kind = getattr(kind, "_declared_fields", {}).values()
    declared = [getattr(field, "child", field) for field in fields_of_kind]
    nested: set[Any] = {
        type(field) for field in declared if isinstance(field, serializers.BaseSerializer)
    }
    return all(has_constant_fields(each) for each in nested - {kind})


def member_schema(field: Any) -> Schema:
    """Return the schema of a field of a serializer, with its title, help text and default."""
    schema = input_schema(field)
    if field.allow_null:
        schema = or_null(schema)
    texts = (str(field.help_text or ""), schema.get("description"))
    label = str(field.label or "")
    is_trivial = label.casefold() == str(field.field_name).replace("_", " ").casefold()
    # A default may also be computed for each request, or be a number that JSON does not have.
    default = field.default
    is_json = isinstance(default, str | int | float | bool)
    is_json = is_json and not (isinstance(default, float) and not isfinite(default))
    members = {
        "title": None if is_trivial else label,
        **schema,
        "description": " ".join(filter(None, texts)),
        "default": default if is_json else None,
    }
    return {key: value for key, value in members.items() if value not in (None, "")}


def accepts_files(field: Any) -> bool:
    """Whether the value of a field is a file, or a list of files."""
    return isinstance(getattr(field, "child", field), fields.FileField)


def is_accepted(field: Any) -> bool:
    return not (field.read_only or isinstance(field, serializers.HiddenField))


def _object(serializer: Any) -> Schema:
    """Return the schema of an object; a reference, where it is part of one like it."""
    accepted = {name: it for name, it in serializer.fields.items() if is_accepted(it)}
    definitions = _definitions.get(None) or _Definitions()
    key = (type(serializer), *accepted)
    if key in definitions.open:
        name = definitions.open[key]
        definitions.referenced.add(name)
        return {"$ref": f"#/$defs/{name}"}
    name = definitions.open[key] = definitions.name_of(type(serializer))
    token = _definitions.set(definitions)
    try:
        schema = _members(serializer, accepted)
    finally:
        _definitions.reset(token)
    del definitions.open[key]
    if name in definitions.referenced:
        definitions.schemas[name] = schema
    return schema


def _members(serializer: Any, accepted: Mapping[str, Any]) -> Schema:
    # All fields that the author declares to be unique together must be given.
    declared = getattr(getattr(serializer, "Meta", None), "validators", None) or ()
    validators = [each for each in declared if isinstance(each, UniqueTogetherValidator)]
    together = {name for validator in validators for name in validator.fields}
    return {
        "type": "object",
        "properties": {name: member_schema(field) for name, field in accepted.items()},
        "required": [
            name
            for name, field in accepted.items()
            if field.required or (name in together and field.default is fields.empty)
        ],
    }


def _list(field: Any) -> Schema:
    smallest = getattr(field, "min_length", None)
    is_never_empty = not getattr(field, "allow_empty", True)
    return _without_none(
        type="array",
        items=item_schema(field.child),
        minItems=1 if smallest is None and is_never_empty else smallest,
        maxItems=getattr(field, "max_length", None),
    )


def item_schema(child: Any) -> Schema:
    schema = input_schema(child)
    return or_null(schema) if child.allow_null else schema


def _string(field: Any, **members: Any) -> Schema:
    smallest = getattr(field, "min_length", None)
    is_never_blank = not getattr(field, "allow_blank", True)
    return _without_none(
        type="string",
        minLength=1 if smallest is None and is_never_blank else smallest,
        maxLength=getattr(field, "max_length", None),
        **members,
    )


def _of_type(name: TypeName, field: Any) -> Schema:
    return dict(field_type(name).argument)


def _text(name: TypeName, field: Any) -> Schema:
    return {**field_type(name).argument, **_string(field)}


def _temporal(name: str, setting: str, field: Any) -> Schema:
    """Return the schema of a date or time, which has a format of its own if the site says so."""
    accepted = getattr(field, "input_formats", None) or getattr(api_settings, setting)
    if any(each.lower() == fields.ISO_8601 for each in accepted):
        return {"type": "string", "format": name}
    return {"type": "string", "description": f"Formats: {', '.join(accepted)}"}


def _number(name: TypeName, field: Any) -> Schema:
    limits = _without_none(minimum=bound(field.min_value), maximum=bound(field.max_value))
    return with_bounds(dict(field_type(name).argument), limits)


def _choice(field: Any) -> Schema:
    """Return the schema of a choice; ``or_null`` adds null. Choices may be made later."""
    choices = Choices.of(field.choices.items())
    if not 0 < len(choices) <= MAX_CHOICES:
        return {}
    schema = choices.schema(may_be_blank=field.allow_blank or "" in field.choices)
    labels = str(labels_of(choices))
    return {**schema, "description": labels} if labels else schema


def _primary_key(field: Any) -> Schema:
    if field.pk_field is not None:
        return input_schema(field.pk_field)
    queryset = field.queryset
    return {"type": ["integer", "string"]} if queryset is None else key_schema(queryset.model)


def _several_related(field: Any) -> Schema:
    schema = {"type": "array", "items": input_schema(field.child_relation)}
    return schema if field.allow_empty else {"minItems": 1, **schema}


def _slug(field: Any) -> Schema:
    queryset = field.queryset
    return dict(STRING) if queryset is None else key_schema(queryset.model, field.slug_field)


def _regex(field: Any) -> Schema:
    pattern = next(
        (each.regex.pattern for each in field.validators if hasattr(each, "regex")), None
    )
    try:
        search(pattern or "")
    except ValueError:
        pattern = None  # The serializer validates it: only Python has such patterns.
    return _string(field, **({"pattern": pattern} if pattern else {}))


def _without_none(**members: Any) -> Schema:
    return {key: value for key, value in members.items() if value is not None}


SCHEMAS: Mapping[type, Callable[[Any], Schema]] = {
    serializers.BaseSerializer: lambda field: {},
    serializers.Serializer: _object,
    serializers.ListSerializer: _list,
    relations.ManyRelatedField: _several_related,
    relations.PrimaryKeyRelatedField: _primary_key,
    relations.HyperlinkedRelatedField: lambda field: {"type": "string", "format": "uri-reference"},
    relations.SlugRelatedField: _slug,
    fields.ListField: _list,
    fields.DictField: lambda field: {
        "type": "object",
        "additionalProperties": item_schema(field.child),
    },
    fields.JSONField: lambda field: {},
    fields.MultipleChoiceField: lambda field: {
        "type": "array",
        "items": _choice(field),
        "uniqueItems": True,
    },
    fields.ChoiceField: _choice,
    fields.BooleanField: partial(_of_type, "boolean"),
    fields.IntegerField: partial(_number, "integer"),
    fields.FloatField: partial(_number, "number"),
    fields.DecimalField: partial(_number, "decimal"),
    fields.EmailField: partial(_text, "email"),
    fields.URLField: partial(_text, "uri"),
    fields.RegexField: _regex,
    fields.UUIDField: partial(_of_type, "uuid"),
    fields.IPAddressField: partial(_of_type, "address"),
    fields.CharField: _string,
    fields.DateField: partial(_temporal, "date", "DATE_INPUT_FORMATS"),
    fields.DateTimeField: partial(_temporal, "date-time", "DATETIME_INPUT_FORMATS"),
    fields.TimeField: partial(_temporal, "time", "TIME_INPUT_FORMATS"),
    fields.DurationField: partial(_of_type, "duration"),
    fields.FileField: lambda field: uploads.schema(),
    fields.Field: lambda field: {},
}
"""The schema of each class of fields; a subclass has the schema of its nearest base."""
