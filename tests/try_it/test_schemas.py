"""Fields for the schemas that a site has written itself."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from django_mcp.admin.try_it.forms import SchemaForm


def form_of(schema: dict[str, Any], **posted: str) -> SchemaForm:
    """The form for an object with one member, which was posted if it has a value."""
    data = QueryDict(mutable=True)
    data.update({f"/{name}": value for name, value in posted.items()})
    return SchemaForm({"type": "object", "properties": {"it": schema}}, data if posted else None)


@pytest.mark.parametrize(
    ("schema", "entered", "value"),
    [
        ({"type": ["string", "integer"]}, "7", 7),
        ({"type": ["string", "integer"]}, "seven", "seven"),
        ({"type": ["integer", "string", "null"]}, "7", 7),
        ({"anyOf": [{"type": ["string", "boolean"]}, {"type": "integer"}]}, "true", True),
        ({"type": ["string", "array"]}, '["a"]', ["a"]),
        ({"anyOf": [{"type": ["string", "array"]}, {"type": "integer"}]}, '["a"]', ["a"]),
    ],
)
def test_value_of_one_of_several_types_is_entered(
    schema: dict[str, Any], entered: str, value: Any
) -> None:
    form = form_of(schema, it=entered)

    assert [item.widget for item in form_of(schema).layout]
    assert form.is_valid()
    assert form.value() == {"it": value}


def test_choices_have_their_own_names_beside_null() -> None:
    schema = {"enum": [None, "s", "l"], "enumNames": ["-", "Small", "Large"]}

    (item,) = form_of(schema).layout

    assert '<option value="&quot;s&quot;">Small</option>' in item.widget
    assert '<option value="&quot;l&quot;">Large</option>' in item.widget
