"""The schemas of single fields of serializers: choices, null, and what a field accepts."""

from __future__ import annotations

from typing import Any

from django.db import models
from jsonschema import Draft202012Validator
from rest_framework import serializers

from django_mcp.openapi.schemas import to_json_schema
from django_mcp.rest.serializers import member_schema
from tests.rows import rows


class Size(models.IntegerChoices):
    __empty__ = "Unknown"
    SMALL = 1, "Small"
    LARGE = 2, "Large"


class Inner(serializers.Serializer):  # type: ignore[misc]
    name = serializers.CharField()


STRING = {"type": "string"}
SIZES = {"type": "integer", "enum": [1, 2], "description": "1: Small; 2: Large"}
NULL = {"type": "null"}

FIELDS: list[tuple[Any, dict[str, Any]]] = [
    (serializers.ChoiceField(choices=[]), {}),
    (serializers.ChoiceField(choices=Size.choices), SIZES),
    (
        serializers.ChoiceField(choices=Size.choices, allow_null=True),
        {"anyOf": [{"type": "integer", "enum": [1, 2]}, NULL], "description": SIZES["description"]},
    ),
    (
        serializers.ChoiceField(choices=[("", "-"), ("a", "A")], allow_blank=True),
        {"type": "string", "enum": ["a", ""]},
    ),
    (
        serializers.ListField(child=serializers.CharField(allow_blank=True), allow_null=True),
        {"anyOf": [{"type": "array", "items": STRING}, NULL]},
    ),
    (
        serializers.DictField(child=serializers.CharField(allow_blank=True), allow_null=True),
        {"anyOf": [{"type": "object", "additionalProperties": STRING}, NULL]},
    ),
    (
        serializers.IntegerField(allow_null=True, max_value=9),
        {"type": ["integer", "null"], "maximum": 9},
    ),
]


@rows(("field", "schema"), FIELDS)
def test_field_has_one_schema_of_choices_and_of_null(field: Any, schema: dict[str, Any]) -> None:
    field.bind("a_field", None)
    listed = member_schema(field)
    assert listed == schema
    Draft202012Validator.check_schema(listed)


def test_nullable_object_is_no_list_of_types() -> None:
    field = Inner(allow_null=True)
    field.bind("inner", None)
    object_schema, null = member_schema(field)["anyOf"]
    assert (object_schema["type"], null) == ("object", NULL)
    of_openapi = {"type": ["array", "null"], "items": STRING, "readOnly": False}
    assert to_json_schema(of_openapi) == {"anyOf": [{"type": "array", "items": STRING}, NULL]}
